// Signals, windows, gets and puts, and memory that peers map.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "tests/transports/shm/ranks.h"

namespace roda::shm_test {
namespace {

struct Way {
  const char* name;
  Knobs knobs;
  friend void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }
};
const Way kWays[] = {
    {"standard", {}},
    {"no_cma", {{"RODA_TEST_SHM_CMA", "0"}, {"RODA_TEST_SHM_RING_BYTES", "8192"}}},
    {"posix", {{"RODA_TEST_SHM_FORCE_POSIX", "1"}}},
};

class MemoryTest : public ::testing::TestWithParam<Way> {
 protected:
  // The body runs in two ranks, formed.
  void run(int size, const std::function<void(Member&)>& body) {
    Board board;
    run_ranks(size, [&](int rank) {
      Member member(board, rank, size, GetParam().knobs);
      ASSERT_EQ(member.form(), RODA_OK) << member.error().message;
      body(member);
      member.barrier();
    });
  }
};

TEST_P(MemoryTest, SignalsCarryEverythingWrittenBefore) {
  run(3, [](Member& m) {
    roda_memory memory{};
    ASSERT_EQ(m.t.memory_alloc(m.group, 1 << 20, &memory, nullptr), RODA_OK);
    ASSERT_EQ(m.t.window_open(m.group, 3, memory.address, memory.length, &memory, nullptr), RODA_OK);
    m.barrier();
    auto mine = static_cast<std::uint64_t*>(memory.address);
    const int next = (m.rank + 1) % m.size, before = (m.rank + 2) % m.size;
    auto theirs = static_cast<const std::uint64_t*>(m.t.window_map(m.group, before, 3));
    ASSERT_NE(theirs, nullptr);
    for (std::uint64_t turn = 1; turn <= 500; ++turn) {
      for (std::size_t i = 0; i < 512; ++i) mine[i * 8] = turn * 1000 + i;
      m.signal(next, 7, turn);
      m.wait_signal(before, 7, turn, turn % 3 == 0);
      for (std::size_t i = 0; i < 512; ++i) ASSERT_EQ(theirs[i * 8], turn * 1000 + i);
      m.signal(before, 8, turn);  // may be overwritten
      m.wait_signal(next, 8, turn);
    }
    m.barrier();
    m.t.memory_free(m.group, &memory);
  });
}

TEST_P(MemoryTest, EverySignalOfEveryPairIsItsOwn) {
  run(4, [](Member& m) {
    const std::uint32_t count = m.t.signal_count(m.group) - 1;  // the last is the barrier's
    ASSERT_GE(count, 32u);
    for (std::uint32_t i = 0; i < count; ++i) {
      for (int peer = 0; peer < m.size; ++peer) {
        m.signal(peer, i, 1 + i * 100 + static_cast<unsigned>(m.rank * 10 + peer));
      }
    }
    for (int peer = 0; peer < m.size; ++peer) m.wait_signal(peer, count - 1, 1);
    for (std::uint32_t i = 0; i < count; ++i) {
      for (int peer = 0; peer < m.size; ++peer) {
        ASSERT_EQ(m.t.signal_value(m.group, peer, i), 1 + i * 100 + static_cast<unsigned>(peer * 10 + m.rank));
      }
    }
  });
}

TEST_P(MemoryTest, GetAndPutOnPrivateMemory) {
  run(2, [](Member& m) {
    const std::size_t kBytes = 3'000'001;
    auto mine = pattern(kBytes, static_cast<unsigned>(m.rank));
    const auto theirs = pattern(kBytes, static_cast<unsigned>(1 - m.rank));
    ASSERT_EQ(m.t.window_open(m.group, 0, mine.data(), kBytes, nullptr, nullptr), RODA_OK);
    m.barrier();
    EXPECT_EQ(m.t.window_map(m.group, 1 - m.rank, 0), nullptr);
    EXPECT_EQ(m.t.window_map(m.group, m.rank, 0), mine.data());
    for (std::size_t bytes : {std::size_t{1}, std::size_t{4096}, std::size_t{100'000}, kBytes - 77}) {
      std::vector<unsigned char> got(bytes);
      ASSERT_EQ(m.wait(m.start_get(1 - m.rank, 0, 77, got.data(), bytes)), RODA_OK) << m.error().message;
      ASSERT_EQ(std::memcmp(got.data(), theirs.data() + 77, bytes), 0) << bytes;
    }
    m.barrier();
    auto gift = pattern(kBytes, 55u + static_cast<unsigned>(m.rank));
    ASSERT_EQ(m.wait(m.start_put(1 - m.rank, 0, 0, gift.data(), kBytes)), RODA_OK) << m.error().message;
    m.signal(1 - m.rank, 0, 1);
    m.wait_signal(1 - m.rank, 0, 1);
    ASSERT_EQ(mine, pattern(kBytes, 55u + static_cast<unsigned>(1 - m.rank)));
    m.barrier();
    m.t.window_close(m.group, 0);
  });
}

TEST_P(MemoryTest, GetAndPutOnMappedMemory) {
  run(2, [](Member& m) {
    roda_memory memory{};
    ASSERT_EQ(m.t.memory_alloc(m.group, 1'000'000, &memory, nullptr), RODA_OK);
    auto mine = pattern(memory.length, static_cast<unsigned>(m.rank));
    std::memcpy(memory.address, mine.data(), mine.size());
    auto middle = static_cast<char*>(memory.address) + 1000;
    ASSERT_EQ(m.t.window_open(m.group, 1, middle, 900'000, &memory, nullptr), RODA_OK);
    m.barrier();
    std::vector<unsigned char> got(900'000);
    ASSERT_EQ(m.wait(m.start_get(1 - m.rank, 1, 0, got.data(), got.size())), RODA_OK);
    const auto theirs = pattern(memory.length, static_cast<unsigned>(1 - m.rank));
    EXPECT_EQ(std::memcmp(got.data(), theirs.data() + 1000, got.size()), 0);
    auto mapped = static_cast<const char*>(m.t.window_map(m.group, 1 - m.rank, 1));
    ASSERT_NE(mapped, nullptr);
    EXPECT_EQ(std::memcmp(mapped, got.data(), got.size()), 0);
    m.barrier();
    ASSERT_EQ(m.wait(m.start_put(1 - m.rank, 1, 10, "hello", 5)), RODA_OK);
    m.signal(1 - m.rank, 0, 1);
    m.wait_signal(1 - m.rank, 0, 1);
    EXPECT_EQ(std::memcmp(middle + 10, "hello", 5), 0);
  });
}

TEST_P(MemoryTest, OutsideTheWindowIsAnError) {
  run(2, [](Member& m) {
    std::vector<unsigned char> data(100), mine(100);
    ASSERT_EQ(m.t.window_open(m.group, 0, mine.data(), 100, nullptr, nullptr), RODA_OK);
    m.barrier();
    roda_request* request = nullptr;
    roda_error error{};
    const int peer = 1 - m.rank;
    EXPECT_EQ(m.t.get(m.group, peer, 0, 1, data.data(), 100, &request, &error), RODA_ERR_INVALID);
    EXPECT_EQ(m.t.get(m.group, peer, 0, ~std::size_t{0}, data.data(), 2, &request, &error), RODA_ERR_INVALID);
    EXPECT_EQ(m.t.put(m.group, peer, 5, 0, data.data(), 1, &request, &error), RODA_ERR_INVALID) << "never opened";
    EXPECT_EQ(m.t.get(m.group, peer, 1000, 0, data.data(), 1, &request, &error), RODA_ERR_INVALID);
    EXPECT_EQ(m.t.get(m.group, 2, 0, 0, data.data(), 1, &request, &error), RODA_ERR_INVALID);
    EXPECT_EQ(m.t.signal(m.group, 0, 100000, 1, &error), RODA_ERR_INVALID);
    EXPECT_EQ(m.t.get(m.group, peer, 0, 100, data.data(), 0, &request, &error), RODA_OK);
  });
}

TEST_P(MemoryTest, ReopenedWindowsAreSeenAfterASignal) {
  run(2, [](Member& m) {
    std::vector<std::vector<unsigned char>> areas;
    for (unsigned i = 0; i < 5; ++i) areas.push_back(pattern(1000 + i, i));
    for (unsigned turn = 1; turn <= 20; ++turn) {
      auto& area = areas[turn % 5];
      if (m.rank == 0) {
        ASSERT_EQ(m.t.window_open(m.group, 2, area.data(), area.size(), nullptr, nullptr), RODA_OK);
        m.signal(1, 0, turn);
        m.wait_signal(1, 0, turn);
      } else {
        m.wait_signal(0, 0, turn);
        std::vector<unsigned char> got(area.size());
        ASSERT_EQ(m.wait(m.start_get(0, 2, 0, got.data(), got.size())), RODA_OK) << m.error().message;
        ASSERT_EQ(got, area);
        m.signal(0, 0, turn);
      }
    }
  });
}

TEST_P(MemoryTest, LongMessagesOutOfMappedMemory) {
  run(2, [](Member& m) {
    roda_memory memory{};
    ASSERT_EQ(m.t.memory_alloc(m.group, 5 << 20, &memory, nullptr), RODA_OK);
    auto mine = pattern(memory.length, static_cast<unsigned>(m.rank));
    std::memcpy(memory.address, mine.data(), mine.size());
    std::vector<unsigned char> got(memory.length);
    roda_request* sending = m.start_send(1 - m.rank, 1, memory.address, memory.length);
    ASSERT_EQ(m.recv(1 - m.rank, 1, got.data(), got.size()), RODA_OK) << m.error().message;
    ASSERT_EQ(m.wait(sending), RODA_OK);
    EXPECT_EQ(got, pattern(memory.length, static_cast<unsigned>(1 - m.rank)));
    m.t.memory_free(m.group, &memory);
  });
}

TEST_P(MemoryTest, FreedMemoryIsReusedAndZeroed) {
  run(1, [](Member& m) {
    void* first = nullptr;
    for (int i = 0; i < 8; ++i) {
      roda_memory memory{}, other{};
      ASSERT_EQ(m.t.memory_alloc(m.group, 30 << 20, &memory, nullptr), RODA_OK);
      ASSERT_EQ(m.t.memory_alloc(m.group, 100, &other, nullptr), RODA_OK);
      if (i == 0) first = memory.address;
      EXPECT_EQ(memory.address, first);
      EXPECT_EQ(static_cast<char*>(memory.address)[4096], 0);
      static_cast<char*>(memory.address)[4096] = 1;
      m.t.memory_free(m.group, &memory);
      m.t.memory_free(m.group, &other);
    }
  });
}

TEST_P(MemoryTest, WhatWasNotFreedStaysWhenTheGroupGoes) {
  Board board;
  run_ranks(2, [&](int rank) {
    roda_memory kept{}, odd{}, freed{};
    {
      Member m(board, rank, 2, GetParam().knobs);
      ASSERT_EQ(m.form(), RODA_OK) << m.error().message;
      ASSERT_EQ(m.t.memory_alloc(m.group, 3 << 20, &kept, nullptr), RODA_OK);
      ASSERT_EQ(m.t.memory_alloc(m.group, 5001, &odd, nullptr), RODA_OK);
      ASSERT_EQ(m.t.memory_alloc(m.group, 1 << 20, &freed, nullptr), RODA_OK);
      std::memset(kept.address, 7, kept.length);
      m.barrier();
      roda_memory given_back = freed;
      m.t.memory_free(m.group, &given_back);
    }
    EXPECT_EQ(std::count(static_cast<char*>(kept.address), static_cast<char*>(kept.address) + kept.length, 7), 3 << 20);
    unsigned char page = 0;
    EXPECT_EQ(::mincore(freed.address, 1, &page), -1) << "still mapped";
    EXPECT_EQ(::munmap(kept.address, kept.length), 0);
    EXPECT_EQ(::munmap(odd.address, odd.length), 0);
    for (std::size_t offset = 0; offset < 64 << 10; offset += 4096) {
      EXPECT_EQ(::mincore(static_cast<char*>(odd.address) + offset, 1, &page), -1) << offset << " still mapped";
    }
  });
}

TEST_P(MemoryTest, MemoryIsZeroAgainWhenItIsHandedOutAgain) {
  run(1, [](Member& m) {
    for (int i = 0; i < 2; ++i) {
      roda_memory memory{};
      ASSERT_EQ(m.t.memory_alloc(m.group, 5001, &memory, nullptr), RODA_OK);
      auto* bytes = static_cast<char*>(memory.address);
      EXPECT_EQ(std::count(bytes, bytes + 5001, 0), 5001);
      std::memset(bytes, 7, 5001);
      m.t.memory_free(m.group, &memory);
    }
  });
}

TEST_P(MemoryTest, MoreMemoryThanThereIsIsAnError) {
  run(1, [](Member& m) {
    roda_memory memory{};
    roda_error error{};
    EXPECT_EQ(m.t.memory_alloc(m.group, std::size_t{1} << 45, &memory, &error), RODA_ERR_NO_MEMORY);
    EXPECT_NE(std::string(error.message).find("no address space"), std::string::npos) << error.message;
    ASSERT_EQ(m.t.memory_alloc(m.group, 4096, &memory, &error), RODA_OK);
  });
}

TEST_P(MemoryTest, QuiescedKnowsPendingOperationsAndOpenWindows) {
  run(2, [](Member& m) {
    std::vector<unsigned char> data(100'000), window(1000), other(10);
    EXPECT_EQ(m.t.quiesced(m.group, data.data(), data.size()), 1);
    ASSERT_EQ(m.t.window_open(m.group, 0, window.data(), window.size(), nullptr, nullptr), RODA_OK);
    EXPECT_EQ(m.t.quiesced(m.group, window.data() + 999, 1), 0);
    EXPECT_EQ(m.t.quiesced(m.group, other.data(), other.size()), 1);
    m.t.window_close(m.group, 0);
    EXPECT_EQ(m.t.quiesced(m.group, window.data(), window.size()), 1);
    roda_request* receiving = m.start_recv(1 - m.rank, 1, data.data(), data.size());
    EXPECT_EQ(m.t.quiesced(m.group, data.data() + 5, 1), 0);
    m.barrier();
    std::vector<unsigned char> mine(data.size());
    roda_request* sending = m.start_send(1 - m.rank, 1, mine.data(), mine.size());
    ASSERT_EQ(m.wait(receiving), RODA_OK);
    ASSERT_EQ(m.wait(sending), RODA_OK);
    EXPECT_EQ(m.t.quiesced(m.group, data.data(), data.size()), 1);
    EXPECT_EQ(m.t.quiesced(m.group, mine.data(), mine.size()), 1);
  });
}

TEST_P(MemoryTest, WhatStoresCostIsKnownOnceBothAsk) {
  run(3, [](Member& m) {
    const int peers[] = {(m.rank + 1) % 3, (m.rank + 2) % 3};
    std::uint32_t known[2] = {};
    for (int i = 0; i < 2000 && (known[0] == 0 || known[1] == 0); ++i) {
      for (int p = 0; p < 2; ++p) known[p] = m.t.store_cost(m.group, peers[p]);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    // The others go on asking until they know, too.
    m.signal(peers[0], 9, 1);
    m.signal(peers[1], 9, 1);
    while (m.t.signal_value(m.group, peers[0], 9) == 0 || m.t.signal_value(m.group, peers[1], 9) == 0) {
      for (const int peer : peers) m.t.store_cost(m.group, peer);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_GT(known[0], 0u);
    EXPECT_GT(known[1], 0u);
    EXPECT_EQ(m.t.store_cost(m.group, m.rank), 0u);
    EXPECT_EQ(m.t.store_cost(m.group, 3), 0u);
  });
}

TEST(StoreCost, TestsCanSayIt) {
  Board board;
  run_ranks(2, [&](int rank) {
    Member member(board, rank, 2, {{"RODA_TEST_SHM_STORE_COST", "777"}});
    ASSERT_EQ(member.form(), RODA_OK);
    EXPECT_EQ(member.t.store_cost(member.group, 1 - rank), 777u);
    member.barrier();
  });
}

TEST(Capabilities, WindowsOverAnyMemoryOnlyWhereTheKernelHelps) {
  Board board;
  Member with(board, 0, 1), without(board, 0, 1, {{"RODA_TEST_SHM_CMA", "0"}});
  EXPECT_NE(with.t.context_capabilities(with.context) & RODA_CAP_WINDOW_ANY, 0u);
  EXPECT_EQ(without.t.context_capabilities(without.context) & RODA_CAP_WINDOW_ANY, 0u);
  EXPECT_NE(with.t.capabilities & RODA_CAP_WINDOW_ANY, 0u);
}

INSTANTIATE_TEST_SUITE_P(Ways, MemoryTest, ::testing::ValuesIn(kWays),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace roda::shm_test
