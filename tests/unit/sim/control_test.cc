// Messages of control planes and of forming a job, against what one counts by hand.
#include "tools/sim/model/formation.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/unit/negotiate/combined_job.h"

namespace roda::sim {
namespace {

ControlCost cost_of(const std::string& scheme, ControlOptions options) {
  for (const ControlCost& cost : control_costs(options)) {
    if (cost.scheme == scheme) return cost;
  }
  throw std::out_of_range(scheme);
}

TEST(Control, AStarIsCountedAtItsCentre) {
  const ControlCost cost = cost_of("star", {64, 8, 4, 1, 5});
  EXPECT_EQ(cost.busiest, 2 * 63);
  EXPECT_EQ(cost.hops, 2);
  EXPECT_DOUBLE_EQ(cost.mean, 4 * 63 / 64.0);
  EXPECT_DOUBLE_EQ(cost.us, 2 * 5 + 2 * 63 + 2);
}

TEST(Control, ATreeOfEightyFiveHasThreeLevelsOfFour) {
  const ControlCost cost = cost_of("tree", {85, 8, 4, 1, 5});
  EXPECT_EQ(cost.hops, 6);
  EXPECT_EQ(cost.busiest, 10);
  EXPECT_EQ(cost_of("tree", {86, 8, 4, 1, 5}).hops, 8);
  EXPECT_EQ(cost_of("tree", {5, 8, 4, 1, 5}).busiest, 8);
}

TEST(Control, BitVectorsTakeLogRounds) {
  EXPECT_EQ(cost_of("bit vector", {64, 8, 4, 1, 5}).hops, 6);
  EXPECT_EQ(cost_of("bit vector", {64, 8, 4, 1, 5}).busiest, 12);
  EXPECT_EQ(cost_of("bit vector", {65, 8, 4, 1, 5}).hops, 8);
}

// Nine hosts are one root and eight below it; one more makes a second level.
TEST(Control, OursIsATreeOfHosts) {
  EXPECT_EQ(cost_of("ours", {8, 8, 4, 1, 5}).busiest, 0);
  EXPECT_EQ(cost_of("ours", {4, 2, 4, 1, 5}).busiest, 2);
  EXPECT_EQ(cost_of("ours", {72, 8, 4, 1, 5}).busiest, 16);
  EXPECT_EQ(cost_of("ours", {72, 8, 4, 1, 5}).hops, 2);
  EXPECT_EQ(cost_of("ours", {80, 8, 4, 1, 5}).hops, 4);
  EXPECT_EQ(cost_of("ours", {8, 8, 4, 1, 5}).records, 64);
  EXPECT_EQ(cost_of("ours", {4, 2, 4, 1, 5}).records, 8 + 2 + 1);
}

// The engine's own negotiators and combiners, host after host: launches that end meanwhile take no messages.
TEST(Control, OursIsWhatTheEngineSends) {
  for (const int hosts : {2, 9, 32}) {
    negotiate::CombinedJob job({hosts, 4, topology::kHostFanOut}, 1, /*in_step=*/true);
    ASSERT_TRUE(job.run());
    const ControlCost cost = cost_of("ours", {4 * hosts, 4});
    EXPECT_EQ(job.messages_of_last_round(), cost.mean * 4 * hosts) << hosts;
    EXPECT_EQ(job.records_of_last_round(), cost.records) << hosts;
  }
}

// Two ranks: their claims, five gatherings with a result each, mailboxes and the segment's secret, two of tcp.
TEST(Forming, IsCountedByHand) {
  const FormationCost two = formation_cost({2, 8});
  EXPECT_EQ(two.values, 2 + 5 * 3 + 3 + 7);
  EXPECT_EQ(two.mails, 2);
  EXPECT_EQ(two.links, 0);
  const FormationCost four = formation_cost({4, 2});
  EXPECT_EQ(four.values, 4 + 5 * 5 + 4 + 2 + 1 + 13);
  EXPECT_EQ(four.clients, 4);
  EXPECT_EQ(four.links, 1);
}

// Bytes grow with the square: everybody gets everybody's address.
// What each rank gets grows with the hosts' names alone.
TEST(Forming, TakesAsManyValuesAsRanksTimesANumber) {
  const FormationCost some = formation_cost({1000, 8}), many = formation_cost({10'000, 8});
  EXPECT_NEAR(many.values / some.values, 10, 0.1);
  EXPECT_LT(many.bytes, 200e6);
  EXPECT_LT(many.us, 10e6);
  EXPECT_EQ(many.rounds, some.rounds);
  EXPECT_EQ(many.links, 1249);
}

// Ten tensors of 2 us: 20 us for each record that names them.
TEST(Control, ProcessorTimeIsCountedAtTheBusiestRank) {
  const auto cpu = [](const std::string& scheme, std::int32_t ranks) {
    return cost_of(scheme, {ranks, 8, 4, 1, 5, 10, 2}).cpu_us;
  };
  EXPECT_DOUBLE_EQ(cpu("star", 64), 2 * 63 + 64 * 20);
  EXPECT_DOUBLE_EQ(cpu("tree", 85), 10 + 6 * 20);
  EXPECT_DOUBLE_EQ(cpu("bit vector", 64), 12 + 20);
  EXPECT_DOUBLE_EQ(cpu("ours", 8), 8 * 20);
  EXPECT_DOUBLE_EQ(cpu("ours", 80), 16 + (10 + 7) * 20);
}

TEST(Control, TheShapeToThirtyTwoThousand) {
  for (std::int32_t ranks = 64; ranks <= 32768; ranks *= 2) {
    const ControlOptions options{ranks, 8, 4, 1, 5};
    EXPECT_EQ(cost_of("star", options).busiest, 2.0 * (ranks - 1));
    EXPECT_LE(cost_of("tree", options).busiest, 10);
    EXPECT_LE(cost_of("ours", options).hops, cost_of("tree", options).hops);
    EXPECT_GT(cost_of("star", options).us, cost_of("bit vector", options).us);
  }
}

}  // namespace
}  // namespace roda::sim
