// Broken schedules are refused, and the step that is wrong is named: deadlocks, and memory touched out of order.
#include <gtest/gtest.h>

#include "algorithms/schedule/verifier.h"
#include "tests/unit/algorithms/schedules.h"

namespace roda::schedule {
namespace {

TEST(VerifierDeadlock, MissingSendIsFoundAtTheReceiver) {
  auto ranks = schedules_of(Collective::kAllreduce, "ring", 4);
  steps_of(ranks, 1).pop_back();
  steps_of(ranks, 1).pop_back();  // the last exchange: rank 2 waits for it
  EXPECT_TRUE(begins(verdict(ranks), "rank 0, lane 0, step 10: message of step 10 of rank 0 is not received"));
}

TEST(VerifierDeadlock, WrongPeer) {
  auto ranks = schedules_of(Collective::kBroadcast, "binomial", 4);
  steps_of(ranks, 2)[1].peer = 1;  // should be 3
  EXPECT_TRUE(begins(verdict(ranks), "rank 2, lane 0, step 1: message of step 1 of rank 2 is not received by rank 1"));
}

TEST(VerifierDeadlock, CircleOfReceives) {
  auto ranks = schedules_of(Collective::kAllgather, "ring", 3);
  for (int rank = 0; rank < 3; ++rank) std::swap(steps_of(ranks, rank)[0], steps_of(ranks, rank)[1]);
  EXPECT_TRUE(begins(verdict(ranks), "rank 0, lane 0, step 0: deadlock: rank 0 waits in step 0 (recv output[2] "));
}

// Nothing is buffered: what is being sent can't be overwritten before it is received.
TEST(VerifierDeadlock, OverwritingWhatIsBeingSent) {
  const std::vector<Step> a = {step::send(1, output(0)), step::recv_reduce(1, output(0))};
  const std::vector<Step> b = {step::send(0, output(0)), step::recv_reduce(0, output(0))};
  EXPECT_TRUE(begins(verdict(by_hand(Collective::kAllreduce, 1, {a, b})),
                     "rank 0, lane 0, step 1: deadlock: rank 0 waits in step 1 (recv_reduce output[0] = output[0] + "
                     "message from 1) for rank 1 to receive what it would overwrite"));
}

TEST(VerifierDeadlock, LanesMatchOnlyEachOther) {
  auto ranks = schedules_of(Collective::kBroadcast, "double_binary_tree", 3);
  std::swap(ranks[0].lanes[0], ranks[0].lanes[1]);
  EXPECT_NE(verdict(ranks), "right");
}

TEST(VerifierSignals, MissingSignal) {
  auto ranks = schedules_of(Collective::kBarrier, "signal", 3);
  steps_of(ranks, 1).erase(steps_of(ranks, 1).begin());
  EXPECT_TRUE(begins(verdict(ranks),
                     "rank 0, lane 0, step 1: rank 0 waits in step 1 (wait for signal 0 from all) for "
                     "rank 1, which has ended"));
}

TEST(VerifierSignals, UnusedSignal) {
  auto ranks = schedules_of(Collective::kBroadcast, "direct", 3);
  steps_of(ranks, 2).push_back(step::signal(1));
  EXPECT_TRUE(begins(verdict(ranks), "rank 2, lane 0, step 3: rank 1 never waits for this signal"));
}

TEST(VerifierSignals, IndexesAreApart) {
  auto ranks = schedules_of(Collective::kBarrier, "signal", 2);
  steps_of(ranks, 1)[0].signal = 3;
  EXPECT_TRUE(contains(verdict(ranks), "rank 0, lane 0, step 1"));
}

TEST(VerifierOrder, GetBeforeTheWait) {
  auto ranks = schedules_of(Collective::kBroadcast, "direct", 3);
  std::swap(steps_of(ranks, 1)[0], steps_of(ranks, 1)[1]);
  EXPECT_EQ(
      verdict(ranks),
      "rank 1, lane 0, step 0: get output[0] = output[0] of 0: reads output[0] of rank 0 without being ordered after "
      "the start of rank 0");
}

TEST(VerifierOrder, GetOfWhatIsWrittenAfterTheSignal) {
  auto ranks = schedules_of(Collective::kAllreduce, "direct", 3);
  // Rank 2 announces its chunk before its last get_reduce.
  std::swap(steps_of(ranks, 2)[3], steps_of(ranks, 2)[4]);
  EXPECT_NE(verdict(ranks), "right");
  EXPECT_TRUE(contains(verdict(ranks), "without being ordered after"));
}

TEST(VerifierOrder, WritingWhatAPeerMayStillRead) {
  auto ranks = schedules_of(Collective::kAllreduce, "direct", 2);
  for (int rank = 0; rank < 2; ++rank) {  // without the handshake between reducing and gathering
    auto& steps = steps_of(ranks, rank);
    steps.erase(steps.begin() + 3, steps.begin() + 5);
  }
  EXPECT_TRUE(contains(verdict(ranks), "without being ordered after"));
}

TEST(VerifierOrder, EndingWhileAPeerReads) {
  auto ranks = schedules_of(Collective::kAllgather, "direct", 3);
  for (int rank = 0; rank < 3; ++rank) {
    steps_of(ranks, rank).pop_back();
    steps_of(ranks, rank).pop_back();
  }
  EXPECT_TRUE(
      begins(verdict(ranks), "rank 0: may end before step 2 of rank 2, lane 0 (get output[0] = output[0] of 0)"));
}

TEST(VerifierOrder, OnlyInputMayLinger) {
  auto ranks = schedules_of(Collective::kAllreduce, "oneshot", 3);
  for (Schedule& schedule : ranks) schedule.reads_linger = false;
  EXPECT_TRUE(begins(verdict(ranks), "rank 0: may end before step "));
  ranks = schedules_of(Collective::kAllgather, "direct", 2);
  for (int rank = 0; rank < 2; ++rank) {
    steps_of(ranks, rank).pop_back();
    steps_of(ranks, rank).pop_back();
    ranks[static_cast<std::size_t>(rank)].reads_linger = true;
  }
  EXPECT_TRUE(contains(verdict(ranks), "may end before"));
}

// A chain of signals orders as well as one.
TEST(VerifierOrder, IsTransitive) {
  const std::vector<Step> a = {step::signal(1), step::wait(2)};
  const std::vector<Step> b = {step::wait(0), step::get(0, output(0), output(0)), step::signal(2)};
  const std::vector<Step> c = {step::wait(1), step::get(0, output(0), output(0)), step::signal(0)};
  EXPECT_EQ(verdict(by_hand(Collective::kBroadcast, 1, {a, b, c})), "right");
  // Rank 1 reads after it has passed the signal on: rank 0 may end before.
  const std::vector<Step> late = {step::wait(0), step::signal(2), step::get(0, output(0), output(0))};
  EXPECT_TRUE(
      begins(verdict(by_hand(Collective::kBroadcast, 1, {a, late, c})), "rank 0: may end before step 2 of rank 1"));
}

TEST(VerifierPut, IsRightWhenAnnounced) {
  const std::vector<Step> a = {step::wait(1), step::put(1, output(0), output(0)), step::signal(1)};
  const std::vector<Step> b = {step::signal(0), step::wait(0)};
  EXPECT_EQ(verdict(by_hand(Collective::kBroadcast, 1, {a, b})), "right");
  const std::vector<Step> hasty = {step::put(1, output(0), output(0)), step::wait(1), step::signal(1)};
  EXPECT_TRUE(begins(verdict(by_hand(Collective::kBroadcast, 1, {hasty, b})),
                     "rank 0, lane 0, step 0: put output[0] of 1 = output[0]: writes output[0] of rank 1 without being "
                     "ordered after the start of rank 1"));
  const std::vector<Step> silent = {step::wait(1), step::put(1, output(0), output(0))};
  EXPECT_TRUE(begins(verdict(by_hand(Collective::kBroadcast, 1, {silent, {step::signal(0)}})),
                     "rank 1: may end before step 1 of rank 0"));
}

// Somebody puts over what rank 1 is sending to another: only the receipt of the message frees it, and a signal from the
// sender does not tell of that.
TEST(VerifierPut, OverAPendingSend) {
  const std::vector<Step> receiver = {step::recv(1, scratch(0))};
  const std::vector<Step> putter = {step::wait(1), step::put(1, output(0), output(0)), step::signal(1)};
  auto ranks = by_hand(Collective::kAllreduce, 1, {receiver, {}, putter});
  ranks[0].scratch_chunks = 1;
  steps_of(ranks, 1) = {step::send(0, output(0)), step::signal(2), step::wait(2)};
  EXPECT_TRUE(begins(verdict(ranks),
                     "rank 2, lane 0, step 1: put output[0] of 1 = output[0]: writes output[0] of "
                     "rank 1, which that rank is still sending"));
  // The same where, by luck, the message is received before.
  auto lucky = by_hand(Collective::kAllreduce, 1, {putter, {}, receiver});
  lucky[2].scratch_chunks = 1;
  steps_of(lucky, 1) = {step::send(2, output(0)), step::signal(0), step::wait(0)};
  EXPECT_TRUE(begins(verdict(lucky),
                     "rank 0, lane 0, step 1: put output[0] of 1 = output[0]: writes output[0] of "
                     "rank 1 without being ordered after step 0 of rank 2"));
  // Told by the receiver, it is in order; what is wrong then is the sum.
  steps_of(ranks, 0).push_back(step::signal(2));
  steps_of(ranks, 1).erase(steps_of(ranks, 1).begin() + 1);
  steps_of(ranks, 2)[0].peer = 0;
  EXPECT_EQ(verdict(ranks), "rank 0: output[0] ends with 1 of 3 contributions");
}

TEST(VerifierBarrier, WaitsForEverybodysStart) {
  auto ranks = schedules_of(Collective::kBarrier, "dissemination", 4);
  for (int rank = 0; rank < 4; ++rank) steps_of(ranks, rank).resize(2);  // one round of two
  EXPECT_EQ(verdict(ranks), "rank 0: may end before rank 1 has started");
}

}  // namespace
}  // namespace roda::schedule
