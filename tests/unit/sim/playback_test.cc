// Times, bytes and messages against what one computes by hand; one_switch() has round numbers for that.
#include <gtest/gtest.h>

#include "algorithms/schedule/build.h"
#include "tests/unit/sim/scenarios.h"

namespace roda::sim {
namespace {

using schedule::Collective;
namespace step = schedule::step;

constexpr double kExact = 1e-5;  // us: a few rounded picoseconds

// Rank 1 sends 1000 bytes: 1 us overhead, 1 us wire, 2 us latency, and is added in 1 + 0.5 us. Back the same but for
// the addition.
TEST(Playback, TwoRanksOverATree) {
  EXPECT_NEAR(microseconds(flat_allreduce(one_switch(), "binomial", 2, 1000)), 5.5 + 5, kExact);
}

// P - 1 rounds of (send 1 + wire b + latency 2 + receive 1 + add b/2), then as many without the addition.
TEST(Playback, ARingTakesItsRounds) {
  for (const int ranks : {2, 3, 5, 8}) {
    const double chunk = 4.0;  // us on the wire
    const double round = 1 + chunk + 2 + 1;
    const double expected = (ranks - 1) * (round + chunk / 2) + (ranks - 1) * round;
    EXPECT_NEAR(microseconds(flat_allreduce(one_switch(), "ring", ranks, 4000.0 * ranks)), expected, kExact) << ranks;
  }
}

// log2(P) rounds of the whole vector, and a copy at 4 GB/s if the rounds are odd.
TEST(Playback, RecursiveDoublingTakesLogRounds) {
  const double round = 1 + 2 + 2 + 1 + 1;  // 2000 bytes
  EXPECT_NEAR(microseconds(flat_allreduce(one_switch(), "recursive_doubling", 4, 2000)), 2 * round, kExact);
  EXPECT_NEAR(microseconds(flat_allreduce(one_switch(), "recursive_doubling", 8, 2000)), 3 * round + 0.5, kExact);
}

TEST(Playback, BarriersCarryNothing) {
  const Outcome outcome = outcome_of(flat(one_switch(), Collective::kBarrier, "dissemination", 8, 0));
  EXPECT_NEAR(outcome.seconds * 1e6, 3 * (1 + 2 + 1), kExact);
  EXPECT_EQ(outcome.levels[0].bytes, 0);
  EXPECT_EQ(outcome.levels[0].messages, 24);
}

// Four pairs of ranks on two hosts exchange 1000 bytes at once over one card of 1 GB/s per host: 4 us each way.
TEST(Playback, RanksShareTheirHostsCard) {
  Cluster cluster = hosts_of(4);
  cluster.levels[0] = {"host", 4, 0, 0, 1000, 1, true, 0};
  cluster.levels[1] = {"fabric", 0, 3, 0, 1, 1, true, 0};
  cluster.reduce_GBps = 1e9;
  Scenario scenario = flat_allreduce(cluster, "binomial", 8, 1000);
  scenario.grid = plan::torus_grid({4, 2});
  scenario.plan.stages[0].axis = 1;
  EXPECT_NEAR(microseconds(scenario), 2 * (4 + 3), kExact);
  scenario.cluster.levels[1].ports = 4;
  EXPECT_NEAR(microseconds(scenario), 2 * (1 + 3), kExact);
  scenario.cluster.levels[1].ports = 2;
  EXPECT_NEAR(microseconds(scenario), 2 * (2 + 3), kExact);
}

TEST(Playback, HalfDuplexTakesTwiceAsLong) {
  Cluster cluster = one_switch();
  cluster.levels[0].latency_us = cluster.levels[0].overhead_us = 0;
  cluster.reduce_GBps = 1e9;
  const double full = microseconds(flat_allreduce(cluster, "ring", 4, 400000));
  cluster.levels[0].full_duplex = false;
  EXPECT_NEAR(microseconds(flat_allreduce(cluster, "ring", 4, 400000)) / full, 2, 1e-3);
}

TEST(Playback, ATotalIsSharedByAll) {
  Cluster cluster = one_switch();
  cluster.levels[0].latency_us = cluster.levels[0].overhead_us = 0;
  cluster.levels[0].total_GBps = 2;  // for four ranks that could send 1 each
  cluster.reduce_GBps = 1e9;
  EXPECT_NEAR(microseconds(flat_allreduce(cluster, "ring", 4, 400000)), 6 * 200, 0.1);
}

// Slices overlap: with many of them a tree's time tends to that of one slice's busiest step per slice.
TEST(Playback, SlicesArePipelined) {
  SimulationOptions whole;
  whole.slice_bytes = 0;
  SimulationOptions sliced;
  sliced.slice_bytes = 1 << 20;
  const Scenario scenario = flat_allreduce(one_switch(), "double_binary_tree", 32, 64 << 20);
  EXPECT_LT(2 * microseconds(scenario, sliced), microseconds(scenario, whole));
}

// A reduction overlaps the rest of its message, segment by segment.
TEST(Playback, SegmentsOverlapTheReduction) {
  Cluster cluster = one_switch();
  cluster.levels[0].latency_us = cluster.levels[0].overhead_us = 0;
  cluster.reduce_GBps = 1;
  Scenario scenario = flat(cluster, Collective::kReduceScatter, "pairwise", 2, 4 << 20);
  SimulationOptions options;
  options.segment_bytes = 2 << 20;
  const double one = microseconds(scenario, options);
  options.segment_bytes = 512 << 10;
  const double four = microseconds(scenario, options);
  const double wire = (2 << 20) / 1000.0;
  EXPECT_NEAR(one, 2 * wire, 1e-3);
  EXPECT_NEAR(four, wire + wire / 4, 1e-3);
}

TEST(Playback, CountsBytesAndMessagesByLevel) {
  const int ranks = 12;
  const double bytes = 1.2e6;
  const Outcome outcome = outcome_of(flat_allreduce(hosts_of(4), "ring", ranks, bytes));
  // Each rank sends 2 (P-1) chunks to its right; three of the twelve neighbours are on another host.
  EXPECT_DOUBLE_EQ(outcome.levels[0].bytes, 9 * 2 * 11 * bytes / 12);
  EXPECT_DOUBLE_EQ(outcome.levels[1].bytes, 3 * 2 * 11 * bytes / 12);
  EXPECT_DOUBLE_EQ(outcome.levels[1].messages, 3 * 2 * 11 * 2);  // two slices
  EXPECT_NEAR(outcome.busbw_GBps, bytes / outcome.seconds / 1e9 * 2 * 11 / 12, 1e-9);
}

// As over a tree of full messages, which are 65 / 256 as long. Rank 1 encodes, the root adds and rounds what it sends,
// and rank 1 decodes it.
TEST(Playback, FormatsShortenMessages) {
  const double wire = 65.0 / 256;
  EXPECT_NEAR(microseconds(flat_allreduce(one_switch(), "binomial/int8", 2, 1000)), 2 * (4 + wire) + 4 * 0.5, kExact);
  const Outcome outcome = outcome_of(flat_allreduce(one_switch(), "ring/bf16", 4, 4e6));
  EXPECT_DOUBLE_EQ(outcome.levels[0].bytes, 4 * 2 * 3 * 1e6 / 2);
}

TEST(Playback, OneSidedAlgorithmsRun) {
  for (const char* name : {"direct", "oneshot", "twoshot"}) {
    const Outcome outcome = outcome_of(flat_allreduce(one_switch(), name, 6, 6000));
    EXPECT_GT(outcome.seconds, 5e-6) << name;
    const double moved = std::string(name) == "oneshot" ? 6 * 5 * 6000 : 2 * 5 * 6000;
    EXPECT_NEAR(outcome.levels[0].bytes, moved, 1e-6) << name;
  }
}

// Inside a host memory is mapped: signal 1 + latency 2, the other's half read (1 + wire 1 + latency 2) and added 0.5,
// announced (1 + 2), read (1 + 1 + 2).
TEST(Playback, WhatIsMappedIsReadWithoutARequest) {
  Scenario scenario = flat_allreduce(one_switch(), "direct", 2, 2000);
  const double with_requests = microseconds(scenario);
  scenario.cluster.levels[0].name = topology::kHost;
  EXPECT_NEAR(microseconds(scenario), with_requests - 2 * 2, kExact);
}

// Peers read each rank's other half of 1000 bytes in its block, and the half that it has summed up: 0.25 us each.
TEST(Playback, WhatPeersReadIsCopiedToWhereTheyLook) {
  Scenario scenario = flat_allreduce(one_switch(), "direct", 2, 2000);
  const double with_copies = microseconds(scenario);
  scenario.cluster.copy_GBps = 1e9;
  EXPECT_NEAR(microseconds(scenario), with_copies - 2 * 0.25, kExact);
}

// A rank's share lies apart from the output until the allgather: 1000 bytes. What a program of messages adds to lies
// where it is sent from.
TEST(Playback, CompositionsCopyWhatLiesElsewhere) {
  Scenario scenario = flat_allreduce(hosts_of(2), "ring", 4, 2000);
  const double flat_time = microseconds(scenario);
  scenario.cluster.copy_GBps = 1;
  EXPECT_NEAR(microseconds(scenario), flat_time, kExact);
  scenario.grid = plan::nested_grid(lay_out(hosts_of(2), 4).levels);
  scenario.plan = plan::hierarchical(scenario.grid, {});
  const double with_copies = microseconds(scenario);
  scenario.cluster.copy_GBps = 1e9;
  EXPECT_NEAR(microseconds(scenario), with_copies - 1, kExact);
}

TEST(Playback, OfTooManyRanksPeersMemoryIsNotSimulated) {
  Outcome outcome;
  EXPECT_EQ(simulate(flat_allreduce(one_switch(), "direct", 1000, 1000), {}, &outcome),
            "too large: allreduce/direct of 1000 ranks has 3002 steps on each that do not repeat: 3002000 in all");
  EXPECT_EQ(simulate(flat(one_switch(), Collective::kBroadcast, "direct", 2049, 1000), {}, &outcome),
            "too large: broadcast/direct works on the memory of its peers: what is copied there shows when the "
            "programs of all ranks are played, of 2048 at most, not of 2049");
}

// 8 MiB in one piece, whose stage has two parts of 1 MiB under way: it takes as long as eight pieces, of which two are.
TEST(Playback, StagesCutTheirPieces) {
  const Scenario scenario = flat_allreduce(one_switch(), "ring", 4, 8 << 20);
  SimulationOptions pieces;
  pieces.in_flight = 2;
  pieces.folding = Folding::kNever;
  SimulationOptions parts = pieces;
  parts.slice_bytes = 0;
  parts.stages = {{1 << 20, 2, parts.segment_bytes}};
  const Outcome outcome = outcome_of(scenario, parts);
  EXPECT_EQ(outcome.pieces, 1);
  EXPECT_NEAR(outcome.seconds * 1e6, microseconds(scenario, pieces), kExact);
  EXPECT_DOUBLE_EQ(outcome.levels[0].messages, outcome_of(scenario, pieces).levels[0].messages);
}

// What runs cuts a composition's stages too: blocks of the hosts' memory, which cost more than the slice in one.
TEST(Playback, ACompositionRunsInTheExecutorsSlices) {
  Scenario scenario = flat_allreduce(hosts_of(4), "ring", 12, 16 << 20);
  scenario.grid = plan::nested_grid(lay_out(hosts_of(4), 12).levels);
  scenario.plan = plan::hierarchical(scenario.grid, {{"direct", "ring", "direct"}});
  const SimulationOptions options = executed(scenario);
  const Outcome outcome = outcome_of(scenario, options);
  EXPECT_EQ(outcome.pieces, 8);
  SimulationOptions uncut = options;
  uncut.stages.clear();
  const Outcome as_one = outcome_of(scenario, uncut);
  EXPECT_GT(outcome.levels[0].messages, 2 * as_one.levels[0].messages);
  EXPECT_NEAR(outcome.levels[0].bytes, as_one.levels[0].bytes, 1);
}

TEST(Playback, EveryAlgorithmEnds) {
  for (const schedule::Algorithm* algorithm : schedule::algorithms()) {
    for (const int ranks : {1, 2, 3, 7, 16, 23}) {
      if (!algorithm->accepts(ranks)) continue;
      const Scenario scenario = flat(racks_of(2, 3), algorithm->collective, algorithm->name, ranks, 3e6);
      Outcome outcome;
      const auto wrong = simulate(scenario, {}, &outcome);
      EXPECT_FALSE(wrong) << algorithm->name << " " << ranks << ": " << *wrong;
      const bool takes_time = outcome.seconds > 0;
      EXPECT_TRUE(takes_time || ranks == 1) << algorithm->name << " " << ranks;
    }
  }
}

// Reduce-scatter inside, allreduce across, allgather inside: only the shares cross.
TEST(Playback, HierarchySendsOnlySharesAcross) {
  Scenario scenario = flat_allreduce(hosts_of(4), "ring", 12, 1e6);
  scenario.grid = plan::nested_grid(lay_out(hosts_of(4), 12).levels);
  scenario.plan = plan::hierarchical(scenario.grid, {});
  const Outcome outcome = outcome_of(scenario);
  EXPECT_NEAR(outcome.levels[0].bytes, 12 * 2 * 3.0 / 4 * 1e6, 1);
  EXPECT_NEAR(outcome.levels[1].bytes, 12 * 2 * 2.0 / 3 * 1e6 / 4, 1);
}

TEST(Playback, UnevenHostsRun) {
  Cluster cluster = hosts_of(4);
  cluster.placement = {1, 2, 3};
  Scenario scenario = flat_allreduce(cluster, "ring", 6, 1e6);
  scenario.grid = plan::nested_grid({{"host", {0, 1, 1, 2, 2, 2}}});
  scenario.plan = plan::hierarchical(scenario.grid, {});
  const Outcome outcome = outcome_of(scenario);
  EXPECT_NEAR(outcome.levels[1].bytes, 3 * 2 * 2.0 / 3 * 1e6, 1);  // one rank per host has all of the data
}

TEST(Playback, SchedulesThatWaitForEachOtherAreReported) {
  Scenario scenario = flat_allreduce(one_switch(), "binomial", 2, 1000);
  for (int rank = 0; rank < 2; ++rank) {
    scenario.schedules.push_back(schedule::begin("stuck", Collective::kAllreduce, rank, 2, 1));
    scenario.schedules.back().lanes[0].steps = {step::recv_reduce(1 - rank, schedule::output(0)),
                                                step::send(1 - rank, schedule::output(0))};
  }
  Outcome outcome;
  const auto wrong = simulate(scenario, {}, &outcome);
  ASSERT_TRUE(wrong);
  EXPECT_EQ(*wrong, "the schedules do not end: rank 0 waits for ever in piece 0");
}

TEST(Playback, WhatWouldOutlastTheClockIsRefused) {
  Outcome outcome;
  EXPECT_EQ(simulate(flat_allreduce(one_switch(), "ring", 4, 1e18), {}, &outcome),
            "level switch is too slow for the data: one rank's transfer takes hours");
}

// Rank 3 of a tree of four sends to 2, that to 0, and the result comes back: that is what decides.
TEST(CriticalPath, OfATree) {
  SimulationOptions options;
  options.trace = true;
  const Outcome outcome = outcome_of(flat_allreduce(one_switch(), "binomial", 4, 1000), options);
  std::vector<std::pair<std::string, int>> path;
  for (const PathStep& some : outcome.path) path.emplace_back(some.what, some.rank);
  const std::vector<std::pair<std::string, int>> expected = {
      {"send", 3}, {"wire", 3}, {"recv_reduce", 2}, {"send", 2}, {"wire", 2}, {"recv_reduce", 0},
      {"send", 0}, {"wire", 0}, {"recv", 2},        {"send", 2}, {"wire", 2}, {"recv", 3}};
  EXPECT_EQ(path, expected);
  EXPECT_NEAR(outcome.path.back().end_us, outcome.seconds * 1e6, kExact);
  for (std::size_t i = 1; i < outcome.path.size(); ++i) {
    EXPECT_GE(outcome.path[i].begin_us, outcome.path[i - 1].begin_us);
  }
}

}  // namespace
}  // namespace roda::sim
