// What the conformance kit does not look into: tags of all 64 bits, windows that are not open, registered memory,
// errors that name the peer, and forks. Ranks are threads, each with a context of its own.
#include <gtest/gtest.h>
#include <unistd.h>

#include <barrier>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/transports/connections.h"
#include "tests/transports/thread_ranks.h"
#include "transports/ucx/ucx.h"

namespace roda::transport_test {
namespace {

const roda_transport& table() { return *roda_ucx_transport(); }

struct Formed : Member {
  Formed(Board& board, int rank, int size, std::uint64_t timeout_ns = 0)
      : Member(&table(), board, rank, size, {}, timeout_ns) {
    EXPECT_EQ(form(), RODA_OK) << text();
    error.struct_size = sizeof error;
  }
  // For the other ranks, without progress.
  void meet(std::barrier<>& others) {
    settle();
    others.arrive_and_wait();
  }
  void drive(const std::function<bool()>& done) {
    while (!done()) {
      table().progress(context());
      std::this_thread::yield();
    }
  }
  void signal(int peer, std::uint32_t index, std::uint64_t value) {
    int code = RODA_AGAIN;
    drive([&] { return (code = table().signal(group(), peer, index, value, &error)) != RODA_AGAIN; });
    EXPECT_EQ(code, RODA_OK) << error.message;
  }
  void wait_signal(int peer, std::uint32_t index, std::uint64_t value) {
    drive([&] { return table().signal_value(group(), peer, index) >= value; });
  }
  int get(int peer, std::uint32_t slot, std::size_t offset, void* to, std::size_t bytes) {
    roda_request* request = nullptr;
    int code = table().get(group(), peer, slot, offset, to, bytes, &request, &error);
    drive([&] {
      if (request == nullptr) return true;
      return (code = table().request_test(group(), request, &error)) != RODA_IN_PROGRESS;
    });
    return code;
  }
  roda_error error{};
};

// Tags that don't fit on the wire: announced by number, received before and after they come, and in another order.
TEST(UcxGroup, WideTagsMatchWhateverTheOrder) {
  constexpr std::uint64_t kWide[] = {~0ull, 0xfedcba9876543210, 0xfedcba9876543211, 0x8000000000000000};
  for (const bool posted_first : {true, false}) {
    Board board;
    std::barrier sent(2);
    run_ranks(2, [&](int rank) {
      Formed member(board, rank, 2);
      int in[8] = {};
      std::vector<roda_request*> requests(8, nullptr);
      if (rank == 0) {
        if (posted_first) member.meet(sent);
        // Two messages of each tag: equal tags keep their order.
        const int out[8] = {0, 1, 2, 3, 4, 5, 6, 7};
        for (std::size_t i = 0; i < 8; ++i) {
          ASSERT_EQ(member.send(1, kWide[i % 4], &out[i], sizeof out[i], &requests[i]), RODA_OK);
        }
        if (!posted_first) member.meet(sent);
        for (roda_request* request : requests) EXPECT_EQ(member.wait(request), RODA_OK);
        member.wait_signal(1, 0, 1);
        return;
      }
      if (!posted_first) member.meet(sent);
      for (int i = 7; i >= 0; --i) {
        ASSERT_EQ(member.receive(0, kWide[i % 4], &in[i], sizeof(int), &requests[static_cast<std::size_t>(i)]),
                  RODA_OK);
      }
      if (posted_first) member.meet(sent);
      for (roda_request* request : requests) EXPECT_EQ(member.wait(request), RODA_OK) << member.text();
      for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(in[i + 4], i) << i;  // posted first, so it got the first message
        EXPECT_EQ(in[i], i + 4) << i;
      }
      member.signal(0, 0, 1);
    });
  }
}

TEST(UcxGroup, WindowsAreCheckedBeforeTheyAreUsed) {
  Board board;
  std::barrier looked(2), over(2);
  run_ranks(2, [&](int rank) {
    Formed member(board, rank, 2);
    std::vector<char> mine(1000, static_cast<char>('a' + rank)), data(1000);
    const int peer = 1 - rank;
    EXPECT_EQ(member.get(peer, 3, 0, data.data(), 10), RODA_ERR_PRECONDITION);
    EXPECT_TRUE(contains(member.error.message, "since it opened window 3")) << member.error.message;
    member.meet(looked);
    EXPECT_EQ(table().window_open(member.group(), 3, mine.data(), mine.size(), nullptr, &member.error), RODA_OK);
    member.signal(peer, 0, 1);
    member.wait_signal(peer, 0, 1);
    EXPECT_EQ(member.get(peer, 3, 0, data.data(), 1000), RODA_OK) << member.error.message;
    EXPECT_EQ(data[999], static_cast<char>('a' + peer));
    EXPECT_EQ(member.get(peer, 3, 1, data.data(), 1000), RODA_ERR_INVALID);
    EXPECT_EQ(member.get(peer, 3, ~std::size_t{0}, data.data(), 2), RODA_ERR_INVALID);
    EXPECT_EQ(member.get(peer, 64, 0, data.data(), 1), RODA_ERR_INVALID);
    EXPECT_FALSE(table().quiesced(member.group(), mine.data() + 500, 1));
    member.signal(peer, 0, 2);
    member.wait_signal(peer, 0, 2);
    table().window_close(member.group(), 3);
    member.signal(peer, 0, 3);
    member.wait_signal(peer, 0, 3);
    EXPECT_TRUE(table().quiesced(member.group(), mine.data(), mine.size()));
    EXPECT_EQ(member.get(peer, 3, 0, data.data(), 10), RODA_ERR_PRECONDITION);
    member.meet(over);
  });
}

TEST(UcxGroup, RegisteredMemoryServesMessagesAndWindows) {
  Board board;
  std::barrier over(2);
  run_ranks(2, [&](int rank) {
    Formed member(board, rank, 2);
    std::vector<char> foreign(1 << 20, static_cast<char>('a' + rank)), in(1 << 20);
    roda_memory memory{sizeof memory, RODA_MEMORY_HOST, -1, 0, foreign.data(), foreign.size(), nullptr};
    ASSERT_EQ(table().memory_register(member.group(), &memory, &member.error), RODA_OK) << member.error.message;
    ASSERT_EQ(table().memory_register(member.group(), &memory, &member.error), RODA_OK);  // counted
    table().memory_deregister(member.group(), &memory);
    roda_request *received = nullptr, *sent = nullptr;
    ASSERT_EQ(member.receive(1 - rank, 1, in.data(), in.size(), &received), RODA_OK);
    ASSERT_EQ(table().send(member.group(), 1 - rank, 1, foreign.data(), foreign.size(), &memory, &sent, &member.error),
              RODA_OK);
    EXPECT_EQ(member.wait(received), RODA_OK) << member.text();
    EXPECT_EQ(member.wait(sent), RODA_OK) << member.text();
    EXPECT_EQ(in[in.size() - 1], static_cast<char>('a' + 1 - rank));
    member.meet(over);
    table().memory_deregister(member.group(), &memory);
  });
}

TEST(UcxGroup, MemoryOfAKindThatIsNotThereIsRefusedWithTheReason) {
  Board board;
  std::barrier over(2);
  run_ranks(2, [&](int rank) {
    Formed member(board, rank, 2);
    char byte = 0;
    const roda_memory device{sizeof device, RODA_MEMORY_CUDA, 0, 0, &byte, 1, nullptr};
    roda_request* request = nullptr;
    const int code = table().send(member.group(), 1 - rank, 1, &byte, 1, &device, &request, &member.error);
    if (code == RODA_OK) GTEST_SKIP() << "UCX moves CUDA memory here";
    EXPECT_EQ(code, RODA_ERR_UNSUPPORTED);
    EXPECT_TRUE(contains(member.error.message, "CUDA")) << member.error.message;
    member.meet(over);
  });
}

TEST(UcxGroup, AReceiveFromARankThatLeftNamesIt) {
  Board board;
  std::barrier formed(3);
  run_ranks(3, [&](int rank) {
    Formed member(board, rank, 3);
    member.meet(formed);
    if (rank == 2) return;
    roda_request* request = nullptr;
    char byte = 0;
    const int code = member.receive(2, 5, &byte, 1, &request);  // refused if the goodbye is there already
    if (code == RODA_OK) {
      EXPECT_EQ(member.wait(request), RODA_ERR_PEER) << member.text();
    }
    EXPECT_EQ(member.error_rank(), 102) << member.text();
    EXPECT_TRUE(contains(member.text(), "rank 102 (group test) has left")) << member.text();
    // The others are none the worse.
    roda_request *received = nullptr, *sent = nullptr;
    ASSERT_EQ(member.receive(1 - rank, 6, &byte, 1, &received), RODA_OK) << member.text();
    ASSERT_EQ(member.send(1 - rank, 6, "x", 1, &sent), RODA_OK);
    EXPECT_EQ(member.wait(received), RODA_OK) << member.text();
    EXPECT_EQ(member.wait(sent), RODA_OK) << member.text();
    member.signal(1 - rank, 0, 1);
    member.wait_signal(1 - rank, 0, 1);
  });
}

TEST(UcxGroup, AMessageThatNeverComesIsATimeoutThatNamesThePeer) {
  Board board;
  std::barrier over(2);
  run_ranks(2, [&](int rank) {
    Formed member(board, rank, 2, 1'000'000'000);
    if (rank == 0) {
      roda_request* request = nullptr;
      char byte = 0;
      ASSERT_EQ(member.receive(1, 5, &byte, 1, &request), RODA_OK);
      int code = RODA_IN_PROGRESS;
      member.drive(
          [&] { return (code = table().request_test(member.group(), request, &member.error)) != RODA_IN_PROGRESS; });
      EXPECT_EQ(code, RODA_ERR_TIMEOUT);
      EXPECT_EQ(member.error.rank, 101);
      EXPECT_TRUE(contains(member.error.message, "a message from rank 101")) << member.error.message;
    }
    member.meet(over);
  });
}

TEST(UcxProbe, TransportsThatDoNotExistAreAReason) {
  const char* before = std::getenv("UCX_TLS");
  const std::string saved = before == nullptr ? "" : before;
  ::setenv("UCX_TLS", "nosuchtransport", 1);
  roda_error error{};
  error.struct_size = sizeof error;
  EXPECT_EQ(table().probe(nullptr, &error), RODA_ERR_UNAVAILABLE);
  EXPECT_TRUE(contains(error.message, "UCX_TLS=nosuchtransport")) << error.message;
  before == nullptr ? ::unsetenv("UCX_TLS") : ::setenv("UCX_TLS", saved.c_str(), 1);
  EXPECT_EQ(table().probe(nullptr, &error), RODA_OK) << error.message;
}

TEST(UcxFork, ConnectionsStayInTheirProcess) {
  Board board;
  std::barrier formed(2);
  run_ranks(2, [&](int rank) {
    Formed member(board, rank, 2);
    member.meet(formed);
    if (rank == 0) expect_no_connections_in_a_child([] {});
    member.meet(formed);
    // The parent's connections are none the worse.
    roda_request *received = nullptr, *sent = nullptr;
    char byte = 0;
    ASSERT_EQ(member.receive(1 - rank, 6, &byte, 1, &received), RODA_OK);
    ASSERT_EQ(member.send(1 - rank, 6, "x", 1, &sent), RODA_OK);
    EXPECT_EQ(member.wait(received), RODA_OK) << member.text();
    EXPECT_EQ(member.wait(sent), RODA_OK) << member.text();
    member.meet(formed);
  });
}

}  // namespace
}  // namespace roda::transport_test
