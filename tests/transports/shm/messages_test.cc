// Point-to-point messages in every way they can travel.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/transports/shm/ranks.h"

namespace roda::shm_test {
namespace {

struct Way {
  const char* name;
  Knobs knobs;
  friend void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }
};
// Small rings and eager limits reach the paths of large messages with little data.
const Way kWays[] = {
    {"standard", {}},
    {"no_cma", {{"RODA_TEST_SHM_CMA", "0"}}},
    {"tiny_ring", {{"RODA_TEST_SHM_RING_BYTES", "4096"}, {"RODA_TEST_SHM_CMA", "0"}}},
    {"never_eager", {{"RODA_TEST_SHM_EAGER_BYTES", "0"}}},
    {"posix", {{"RODA_TEST_SHM_FORCE_POSIX", "1"}}},
};

class MessagesTest : public ::testing::TestWithParam<Way> {};

TEST_P(MessagesTest, EverySizeArrivesWhole) {
  Board board;
  run_ranks(2, [&](int rank) {
    Member member(board, rank, 2, GetParam().knobs);
    ASSERT_EQ(member.form(), RODA_OK) << member.error().message;
    std::uint64_t tag = 0;
    for (std::size_t bytes : {0, 1, 16, 17, 1000, 4096, 16384, 16385, 100000, 3000000}) {
      auto mine = pattern(bytes, static_cast<unsigned>(rank));
      auto wanted = pattern(bytes, static_cast<unsigned>(1 - rank));
      std::vector<unsigned char> got(bytes);
      roda_request* sending = member.start_send(1 - rank, ++tag, mine.data(), bytes);
      ASSERT_EQ(member.recv(1 - rank, tag, got.data(), bytes), RODA_OK) << member.error().message;
      ASSERT_EQ(member.wait(sending), RODA_OK) << member.error().message;
      ASSERT_EQ(got, wanted) << bytes << " bytes";
    }
    member.barrier();
  });
}

TEST_P(MessagesTest, TagsMatchOutOfOrderAndEqualTagsInOrder) {
  Board board;
  run_ranks(2, [&](int rank) {
    Member member(board, rank, 2, GetParam().knobs);
    ASSERT_EQ(member.form(), RODA_OK) << member.error().message;
    const std::size_t kSizes[] = {50000, 8, 70000, 8};  // tags 1, 2, 1, 2
    std::vector<std::vector<unsigned char>> data;
    for (unsigned i = 0; i < 4; ++i) data.push_back(pattern(kSizes[i], i));
    if (rank == 0) {
      std::vector<roda_request*> pending;
      for (unsigned i = 0; i < 4; ++i) pending.push_back(member.start_send(1, 1 + i % 2, data[i].data(), kSizes[i]));
      for (auto request : pending) ASSERT_EQ(member.wait(request), RODA_OK);
    } else {
      for (unsigned i : {1u, 0u, 2u, 3u}) {
        std::vector<unsigned char> got(kSizes[i]);
        ASSERT_EQ(member.recv(0, 1 + i % 2, got.data(), got.size()), RODA_OK) << member.error().message;
        ASSERT_EQ(got, data[i]) << i;
      }
    }
    member.barrier();
  });
}

TEST_P(MessagesTest, AllToAllWithManyInFlight) {
  constexpr int kRanks = 4;
  Board board;
  run_ranks(kRanks, [&](int rank) {
    Member member(board, rank, kRanks, GetParam().knobs);
    ASSERT_EQ(member.form(), RODA_OK) << member.error().message;
    for (int round = 0; round < 3; ++round) {
      std::vector<std::vector<unsigned char>> out, in;
      std::vector<roda_request*> pending;
      for (int peer = 0; peer < kRanks; ++peer) {  // this rank itself too
        for (unsigned i = 0; i < 8; ++i) {
          in.emplace_back(1000u << i);
          pending.push_back(member.start_recv(peer, i, in.back().data(), in.back().size()));
        }
      }
      for (int peer = 0; peer < kRanks; ++peer) {
        for (unsigned i = 0; i < 8; ++i) {
          out.push_back(pattern(1000u << i, static_cast<unsigned>(rank * 100 + peer * 10) + i));
          pending.push_back(member.start_send(peer, i, out.back().data(), out.back().size()));
        }
      }
      for (auto request : pending) ASSERT_EQ(member.wait(request), RODA_OK) << member.error().message;
      for (int peer = 0; peer < kRanks; ++peer) {
        for (unsigned i = 0; i < 8; ++i) {
          ASSERT_EQ(in[static_cast<std::size_t>(peer) * 8 + i],
                    pattern(1000u << i, static_cast<unsigned>(peer * 100 + rank * 10) + i));
        }
      }
    }
    member.barrier();
  });
}

TEST_P(MessagesTest, AFullRingIsBackPressureAndNothingIsLost) {
  Board board;
  run_ranks(2, [&](int rank) {
    Member member(board, rank, 2, GetParam().knobs);
    ASSERT_EQ(member.form(), RODA_OK) << member.error().message;
    constexpr int kMessages = 3000;
    const bool waits =
        GetParam().knobs.count("RODA_TEST_SHM_EAGER_BYTES") == 0;  // else each send waits for its receive
    if (!waits) board.set(0, 1);
    if (rank == 0) {
      bool refused = false;
      for (int i = 0; i < kMessages; ++i) {
        std::uint64_t value[16] = {static_cast<std::uint64_t>(i)};
        roda_request* request = nullptr;
        int code;
        roda_error error{};
        while ((code = member.t.send(member.group, 1, 5, value, sizeof value, nullptr, &request, &error)) ==
               RODA_AGAIN) {
          if (!refused) board.set(0, 1);
          refused = true;
          member.t.progress(member.context);
        }
        ASSERT_EQ(member.wait(request), RODA_OK);
      }
      EXPECT_EQ(refused, waits);
    } else {
      ASSERT_EQ(board.wait_for(0), 1u);
      for (int i = 0; i < kMessages; ++i) {
        std::uint64_t value[16] = {};
        ASSERT_EQ(member.recv(0, 5, value, sizeof value), RODA_OK);
        ASSERT_EQ(value[0], static_cast<std::uint64_t>(i));
      }
    }
    member.barrier();
  });
}

TEST_P(MessagesTest, AnotherLengthIsTheReceiversError) {
  Board board;
  run_ranks(2, [&](int rank) {
    Member member(board, rank, 2, GetParam().knobs);
    ASSERT_EQ(member.form(), RODA_OK) << member.error().message;
    std::vector<unsigned char> data(100000, 1);
    if (rank == 0) {
      member.send(1, 1, data.data(), 100);
      member.send(1, 2, data.data(), 90000);
      member.send(1, 3, data.data(), 3);
    } else {
      EXPECT_EQ(member.recv(0, 1, data.data(), 101), RODA_ERR_INVALID);
      EXPECT_EQ(member.error().rank, 100);
      EXPECT_EQ(member.recv(0, 2, data.data(), 100000), RODA_ERR_INVALID);
      EXPECT_EQ(member.recv(0, 3, data.data(), 3), RODA_OK);  // the group goes on
    }
    member.barrier();
  });
}

TEST_P(MessagesTest, SleepersAreWoken) {
  Board board;
  run_ranks(3, [&](int rank) {
    Member member(board, rank, 3, GetParam().knobs);
    ASSERT_EQ(member.form(), RODA_OK) << member.error().message;
    const int next = (rank + 1) % 3, before = (rank + 2) % 3;
    std::vector<unsigned char> token(40000), data(40000);
    for (std::uint64_t turn = 1; turn <= 200; ++turn) {
      roda_request* receiving = member.start_recv(before, turn, token.data(), token.size());
      roda_request* sending = member.start_send(next, turn, data.data(), data.size());
      for (auto request : {receiving, sending}) {
        roda_error error{};
        if (request == nullptr) continue;
        int code = RODA_IN_PROGRESS;
        member.sleep_until([&] {
          return code != RODA_IN_PROGRESS ||
                 (code = member.t.request_test(member.group, request, &error)) != RODA_IN_PROGRESS;
        });
        ASSERT_EQ(code, RODA_OK);
      }
      member.signal(next, 0, turn);
      member.wait_signal(before, 0, turn, true);
    }
    member.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, MessagesTest, ::testing::ValuesIn(kWays),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace roda::shm_test
