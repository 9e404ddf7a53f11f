// Broken schedules are refused, and the step that is wrong is named: shapes, data and messages.
#include "algorithms/schedule/verifier.h"

#include <gtest/gtest.h>

#include "tests/unit/algorithms/schedules.h"

namespace roda::schedule {
namespace {

std::vector<Schedule> broadcast_by_hand(std::vector<Step> root, std::vector<Step> other) {
  return by_hand(Collective::kBroadcast, 2, {std::move(root), std::move(other)});
}

TEST(VerifierShape, RanksMustAgree) {
  auto ranks = schedules_of(Collective::kAllreduce, "ring", 3);
  ranks[2].chunks = 4;
  EXPECT_TRUE(begins(verdict(ranks), "rank 2: collective, root, chunks"));
  ranks = schedules_of(Collective::kAllreduce, "ring", 3);
  std::swap(ranks[0], ranks[1]);
  EXPECT_TRUE(begins(verdict(ranks), "rank 0: is made for another rank"));
  EXPECT_TRUE(verify(std::vector<Schedule>{}));
}

TEST(VerifierShape, ChunksPerRank) {
  auto ranks = schedules_of(Collective::kAllgather, "ring", 2);
  for (Schedule& schedule : ranks) schedule.chunks = 3;
  EXPECT_EQ(verdict(ranks), "rank 0: needs one chunk per rank");
  ranks = schedules_of(Collective::kAlltoall, "pairwise", 2);
  ranks[1].scratch_chunks = 1;
  EXPECT_EQ(verdict(ranks), "rank 1: alltoall has no scratch");
}

TEST(VerifierShape, RangesExist) {
  EXPECT_TRUE(begins(verdict(broadcast_by_hand({step::send(1, output(0, 3))}, {step::recv(0, output(0, 3))})),
                     "rank 0, lane 0, step 0: send output[0..3) to 1: output[0..3) is out of range"));
  EXPECT_TRUE(begins(verdict(broadcast_by_hand({step::send(1, output(0, 2))}, {step::recv(0, scratch(0, 2))})),
                     "rank 1, lane 0, step 0: recv scratch[0..2) from 0: scratch[0..2) is out of range"));
  EXPECT_TRUE(contains(verdict(broadcast_by_hand({step::send(1, output(-1, 2))}, {})), "out of range"));
  EXPECT_TRUE(contains(verdict(broadcast_by_hand({step::send(1, output(INT32_MAX, INT32_MAX))}, {})), "out of range"));
  EXPECT_TRUE(contains(verdict(broadcast_by_hand({step::send(1, output(0, -1))}, {})), "out of range"));
  // A put's destination and a get's source are the peer's.
  auto ranks = by_hand(Collective::kBroadcast, 1, {{}, {step::get(0, output(0), scratch(0))}});
  EXPECT_TRUE(contains(verdict(ranks), "scratch[0] is out of range"));
  ranks[0].scratch_chunks = 1;
  EXPECT_TRUE(contains(verdict(ranks), "reaches into a peer's scratch"));
}

TEST(VerifierShape, PeersAndSignalsExist) {
  EXPECT_TRUE(
      contains(verdict(broadcast_by_hand({step::send(2, output(0))}, {})), "step 0: send output[0] to 2: peer"));
  EXPECT_TRUE(contains(verdict(broadcast_by_hand({step::send(0, output(0))}, {})), "peer is the rank itself"));
  EXPECT_TRUE(contains(verdict(broadcast_by_hand({step::send(kAllPeers, output(0))}, {})), "peer out of range"));
  EXPECT_TRUE(contains(verdict(broadcast_by_hand({step::signal(1, kMaxSignals)}, {})), "signal out of range"));
  EXPECT_TRUE(contains(verdict(broadcast_by_hand({step::signal(1, -1)}, {})), "signal out of range"));
}

TEST(VerifierShape, OperandsFitTheKind) {
  Step send = step::send(1, output(0));
  send.dst = output(1);
  EXPECT_TRUE(contains(verdict(broadcast_by_hand({send}, {})), "has a destination that it does not use"));
  Step recv = step::recv(0, output(0));
  recv.src = output(1);
  EXPECT_TRUE(contains(verdict(broadcast_by_hand({}, {recv})), "has a source that it does not use"));
  EXPECT_TRUE(contains(verdict(broadcast_by_hand({step::copy(output(0), output(0))}, {})), "overlap"));
  EXPECT_TRUE(contains(verdict(broadcast_by_hand({step::copy(nothing(), nothing())}, {})), "moves nothing"));
  Step unknown;
  unknown.kind = static_cast<StepKind>(static_cast<int>(StepKind::kRound) + 1);
  EXPECT_TRUE(contains(verdict(broadcast_by_hand({unknown}, {})), "unknown kind"));
}

TEST(VerifierShape, InputIsReadOnly) {
  auto ranks = schedules_of(Collective::kReduceScatter, "pairwise", 3);
  steps_of(ranks, 1)[1] = step::recv_reduce(0, input(1), input(1));
  EXPECT_TRUE(begins(verdict(ranks), "rank 1, lane 0, step 1: "));
  EXPECT_TRUE(contains(verdict(ranks), "writes Input"));
}

TEST(VerifierShape, ChunksOfDifferentLengthDoNotMix) {
  auto ranks = schedules_of(Collective::kAlltoall, "pairwise", 3);
  steps_of(ranks, 2)[0] = step::copy(output(2), input(1));
  EXPECT_TRUE(begins(verdict(ranks), "rank 2, lane 0, step 0: copy output[2] = input[1]: "));
  EXPECT_TRUE(contains(verdict(ranks), "differ in length"));
}

TEST(VerifierLanes, ShareNoDataAndNoSignals) {
  auto ranks = schedules_of(Collective::kAllreduce, "double_binary_tree", 4);
  steps_of(ranks, 3, 1)[0].src = output(0);
  EXPECT_TRUE(contains(verdict(ranks), "lane 1, step "));

  ranks = schedules_of(Collective::kBarrier, "signal", 2);
  for (Schedule& schedule : ranks) schedule.lanes.push_back(schedule.lanes[0]);
  EXPECT_TRUE(begins(verdict(ranks), "rank 0, lane 1, step 0: signal 0 to all: counts to 1"));
}

TEST(VerifierData, UndefinedDataIsNotSent) {
  EXPECT_TRUE(begins(verdict(broadcast_by_hand({step::recv(1, output(0, 2))}, {step::send(0, output(0, 2))})),
                     "rank 1, lane 0, step 0: send output[0..2) to 0: reads output[0] of rank 1, which is undefined"));
}

TEST(VerifierData, ContributionsCountOnce) {
  auto ranks = schedules_of(Collective::kAllreduce, "binomial", 2);
  steps_of(ranks, 1).insert(steps_of(ranks, 1).begin(), step::send(0, output(0)));
  steps_of(ranks, 0).insert(steps_of(ranks, 0).begin(), step::recv_reduce(1, output(0)));
  EXPECT_TRUE(begins(verdict(ranks), "rank 0, lane 0, step 1: "));
  EXPECT_TRUE(contains(verdict(ranks), "counts the contribution of rank 1 twice"));
}

TEST(VerifierData, ContributionsAreNotForgotten) {
  auto ranks = schedules_of(Collective::kAllreduce, "binomial", 4);
  steps_of(ranks, 0)[1].kind = StepKind::kRecv;  // overwrites what it should add to
  steps_of(ranks, 0)[1].src = nothing();
  EXPECT_EQ(verdict(ranks), "rank 0: output[0] ends with 2 of 4 contributions");
}

TEST(VerifierData, ChunksDoNotMix) {
  auto ranks = schedules_of(Collective::kAllreduce, "ring", 4);
  steps_of(ranks, 2)[0].src = output(3);  // should be chunk 2
  EXPECT_TRUE(begins(verdict(ranks), "rank 3, lane 0, step 1: "));
  EXPECT_TRUE(contains(verdict(ranks), "message of step 0 of rank 2 may have another length"));
}

TEST(VerifierData, AlltoallPiecesReachTheirPlace) {
  auto ranks = schedules_of(Collective::kAlltoall, "direct", 3);
  steps_of(ranks, 0)[3].src = input(1);
  EXPECT_TRUE(begins(verdict(ranks), "rank 0, lane 0, step 3: get output[1] = input[1] of 1: "));
}

// Rank 0 adds (a + b) + c, rank 2 gets a + (b + c).
TEST(VerifierData, AllRanksSumInTheSameOrder) {
  auto ranks = schedules_of(Collective::kAllreduce, "oneshot", 3);
  EXPECT_EQ(verdict(ranks), "right");
  steps_of(ranks, 2) = {step::signal(kAllPeers),           step::wait(1), step::get(1, output(0), input(0)),
                        step::reduce(output(0), input(0)), step::wait(0), step::get_reduce(0, output(0), input(0))};
  EXPECT_EQ(verdict(ranks), "rank 2: output[0] is summed in another order than on rank 0");
}

TEST(VerifierAdasum, ProductsAreOfWholeVectors) {
  auto ranks = schedules_of(Collective::kAdasum, "vector_halving", 4);
  EXPECT_EQ(verdict(ranks), "right");
  for (int rank = 0; rank < 4; ++rank) {
    std::vector<Step>& steps = steps_of(ranks, rank);
    ASSERT_EQ(steps[2].kind, StepKind::kDots);
    steps[2].dst = products(0);
    steps.erase(steps.begin() + 3, steps.begin() + 5);  // what sums up
  }
  EXPECT_EQ(verdict(ranks),
            "rank 1, lane 0, step 3: weigh output[2..4) = scratch[2..4), output[2..4) by products[0]: weighs by "
            "products of 2 of 4 chunks");
}

TEST(VerifierAdasum, OperandsAreThoseOfTheProducts) {
  auto ranks = schedules_of(Collective::kAdasum, "vector_halving", 2);
  Step& weigh = steps_of(ranks, 1)[5];
  ASSERT_EQ(weigh.kind, StepKind::kWeigh);
  std::swap(weigh.src, weigh.other);
  EXPECT_TRUE(contains(verdict(ranks), "weighs by products that are not of these two"));
  weigh.dst = scratch(0);
  EXPECT_TRUE(contains(verdict(ranks), "may differ in length"));
  weigh = step::dots(output(0), output(1), scratch(1));
  EXPECT_TRUE(contains(verdict(ranks), "products are a chunk of Products"));
  weigh = step::dots(products(0), output(1), output(1));
  EXPECT_TRUE(contains(verdict(ranks), "both operands overlap"));
}

// The sum of two vectors is no Adasum of them, and is not weighed with one vector.
TEST(VerifierAdasum, SumsAreNoAdasum) {
  auto ranks = schedules_of(Collective::kAllreduce, "recursive_doubling", 2);
  for (Schedule& rank : ranks) rank.collective = Collective::kAdasum;
  EXPECT_EQ(verdict(ranks), "rank 0: output[0] ends as the Adasum of sums over 2 ranks each");
  for (Schedule& rank : ranks) rank.root = 1;
  EXPECT_EQ(verdict(ranks), "rank 0: output[0] ends as the Adasum of sums over 2 ranks each");
}

TEST(VerifierMessages, LengthsMatch) {
  EXPECT_EQ(verdict(broadcast_by_hand({step::send(1, output(0, 2))}, {step::recv(0, output(0, 2))})), "right");
  EXPECT_TRUE(begins(verdict(broadcast_by_hand({step::send(1, output(0, 2))}, {step::recv(0, output(0, 1))})),
                     "rank 1, lane 0, step 0: recv output[0] from 0: the message of step 0 of rank 0 has another"));
}

TEST(VerifierMessages, OrderMatters) {
  EXPECT_TRUE(begins(verdict(broadcast_by_hand({step::send(1, output(0)), step::send(1, output(1))},
                                               {step::recv(0, output(1)), step::recv(0, output(0))})),
                     "rank 1, lane 0, step 0: recv output[1] from 0"));
}

}  // namespace
}  // namespace roda::schedule
