// Faults and delays on command, and what a rank that leaves means to the others.
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <cstring>

#include "tests/transports/thread_ranks.h"
#include "transports/loop/loop.h"

namespace roda::transport_test {
namespace {

const roda_transport* table() { return roda_loop_transport(); }

TEST(LoopFaults, FailAfterCountsOperationsOfOneRankOnly) {
  Board board;
  std::barrier over(2);
  run_ranks(2, [&](int rank) {
    Member member(table(), board, rank, 2, rank == 0 ? Knobs{{"RODA_TEST_LOOP_FAIL_AFTER", "2"}} : Knobs{});
    ASSERT_EQ(member.form(), RODA_OK);
    roda_request* request = nullptr;
    for (int i = 0; i < 3; ++i) {
      const int code = member.send(1 - rank, 1, &i, sizeof i, &request);
      if (rank == 0 && i == 2) {
        EXPECT_EQ(code, RODA_ERR_PEER);
        EXPECT_STREQ(member.text(), "injected: RODA_TEST_LOOP_FAIL_AFTER=2");
      } else {
        EXPECT_EQ(code, RODA_OK) << member.text();
      }
    }
    over.arrive_and_wait();
  });
}

TEST(LoopFaults, AgainEveryThirdAttempt) {
  Board board;
  std::barrier over(2);
  run_ranks(2, [&](int rank) {
    Member member(table(), board, rank, 2, {{"RODA_TEST_LOOP_AGAIN_EVERY", "3"}});
    ASSERT_EQ(member.form(), RODA_OK);
    roda_request* request = nullptr;
    std::array<int, 6> codes{};
    for (int& code : codes) code = member.send(1 - rank, 1, &rank, sizeof rank, &request);
    EXPECT_EQ(codes, (std::array<int, 6>{RODA_OK, RODA_OK, RODA_AGAIN, RODA_OK, RODA_OK, RODA_AGAIN}));
    over.arrive_and_wait();
  });
}

TEST(LoopFaults, DelayedMessagesComeInOrderAndWakeTheSleeper) {
  Board board;
  run_ranks(2, [&](int rank) {
    Member member(table(), board, rank, 2, {{"RODA_TEST_LOOP_DELAY_US", "2000"}});
    ASSERT_EQ(member.form(), RODA_OK);
    std::array<int, 20> out{}, in{};
    roda_request* request = nullptr;
    for (int i = 0; i < 20; ++i) {
      out[static_cast<std::size_t>(i)] = i;
      ASSERT_EQ(member.send(1 - rank, 1, &out[static_cast<std::size_t>(i)], sizeof(int), &request), RODA_OK);
    }
    for (int& value : in) {
      ASSERT_EQ(member.receive(1 - rank, 1, &value, sizeof value, &request), RODA_OK);
      ASSERT_EQ(member.wait(request), RODA_OK) << member.text();
    }
    EXPECT_EQ(in, out);
  });
}

TEST(LoopFaults, ABadSettingIsRefusedByName) {
  Board board;
  const Member member(table(), board, 0, 1, {{"RODA_TEST_LOOP_DELAY_US", "soon"}});
  EXPECT_EQ(member.code(), RODA_ERR_INVALID);
  EXPECT_STREQ(member.text(), "RODA_TEST_LOOP_DELAY_US=soon is not a number; 0 to 1000000000 is expected");
}

TEST(LoopFaults, ARankThatLeavesEndsWhatOthersHavePendingWithIt) {
  Board board;
  std::barrier posted(2);
  run_ranks(2, [&](int rank) {
    Member member(table(), board, rank, 2);
    ASSERT_EQ(member.form(), RODA_OK);
    roda_request *first = nullptr, *second = nullptr;
    int value = 41, none = 0;
    if (rank == 1) {
      ASSERT_EQ(member.send(0, 1, &value, sizeof value, &first), RODA_OK);
      posted.arrive_and_wait();
      return;  // leaves
    }
    ASSERT_EQ(member.receive(1, 2, &none, sizeof none, &second), RODA_OK);
    posted.arrive_and_wait();
    EXPECT_EQ(member.wait(second), RODA_ERR_PEER);
    EXPECT_EQ(member.error_rank(), 101);
    // What it sent before is not lost.
    ASSERT_EQ(member.receive(1, 1, &none, sizeof none, &first), RODA_OK) << member.text();
    EXPECT_EQ(member.wait(first), RODA_OK);
    EXPECT_EQ(none, 41);
    EXPECT_EQ(member.send(1, 1, &none, sizeof none, &first), RODA_ERR_PEER);
  });
}

TEST(LoopFaults, AnOperationWithoutAnswerTimesOut) {
  Board board;
  run_ranks(2, [&](int rank) {
    Member member(table(), board, rank, 2, {}, 50'000'000);
    ASSERT_EQ(member.form(), RODA_OK);
    roda_request* request = nullptr;
    char byte = 0;
    ASSERT_EQ(member.receive(1 - rank, 1, &byte, 1, &request), RODA_OK);
    int code = RODA_IN_PROGRESS;
    roda_error error{};
    while ((code = table()->request_test(member.group(), request, &error)) == RODA_IN_PROGRESS)
      std::this_thread::yield();
    EXPECT_TRUE(code == RODA_ERR_TIMEOUT || code == RODA_ERR_PEER) << code;  // the other may have left by then
  });
}

TEST(LoopFaults, OnlyMemoryThatTheTransportKeepsAliveIsMapped) {
  Board board;
  Member member(table(), board, 0, 1);
  ASSERT_EQ(member.form(), RODA_OK);
  std::array<char, 64> own{};
  roda_memory memory{};
  roda_error error{};
  ASSERT_EQ(table()->memory_alloc(member.group(), 4096, &memory, &error), RODA_OK);
  ASSERT_EQ(table()->window_open(member.group(), 0, own.data(), own.size(), nullptr, &error), RODA_OK);
  ASSERT_EQ(table()->window_open(member.group(), 1, static_cast<char*>(memory.address) + 64, 100, &memory, &error),
            RODA_OK);
  EXPECT_EQ(table()->window_map(member.group(), 0, 0), nullptr);
  EXPECT_EQ(table()->window_map(member.group(), 0, 1), static_cast<char*>(memory.address) + 64);
  EXPECT_EQ(table()->window_map(member.group(), 0, 2), nullptr);
  table()->memory_free(member.group(), &memory);
}

}  // namespace
}  // namespace roda::transport_test
