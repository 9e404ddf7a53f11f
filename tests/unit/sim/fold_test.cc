// Folded and shortened runs end when the full ones do, at sizes where both can be simulated.
#include <gtest/gtest.h>

#include "tests/unit/sim/scenarios.h"

namespace roda::sim {
namespace {

using schedule::Collective;

constexpr double kSame = 1e-6;        // relative
constexpr double kSamePieces = 5e-3;  // where many pieces are continued at their rate

SimulationOptions with(Folding folding, double slice_bytes) {
  SimulationOptions options;
  options.folding = folding;
  options.slice_bytes = slice_bytes;
  return options;
}

// Returns the number of classes.
int expect_same(const Scenario& scenario, double slice_bytes, double tolerance = kSame) {
  const Outcome full = outcome_of(scenario, with(Folding::kNever, slice_bytes));
  const Outcome folded = outcome_of(scenario, with(Folding::kAlways, slice_bytes));
  EXPECT_FALSE(full.extrapolated);
  EXPECT_EQ(full.classes, full.ranks);
  EXPECT_NEAR(folded.seconds / full.seconds, 1, tolerance)
      << scenario.plan.name << " on " << scenario.cluster.name << ", " << full.ranks << " ranks, " << scenario.bytes
      << " bytes in slices of " << slice_bytes << ", " << folded.classes << " classes";
  for (std::size_t level = 0; level < full.levels.size(); ++level) {
    EXPECT_NEAR(folded.levels[level].bytes, full.levels[level].bytes, 1e-6 * full.levels[level].bytes + 1e-6);
    EXPECT_NEAR(folded.levels[level].messages, full.levels[level].messages, 1e-6);
  }
  return folded.classes;
}

Scenario composed(const Cluster& cluster, int ranks, double bytes, const plan::Choice& choice) {
  Scenario scenario = flat_allreduce(cluster, "ring", ranks, bytes);
  scenario.grid = plan::nested_grid(lay_out(cluster, ranks).levels);
  scenario.plan = plan::hierarchical(scenario.grid, {choice});
  return scenario;
}

TEST(Fold, EveryAlgorithmOfEverySize) {
  for (const schedule::Algorithm* algorithm : schedule::algorithms()) {
    for (const int ranks : {2, 3, 8, 12, 18}) {
      if (!algorithm->accepts(ranks)) continue;
      for (const Cluster& cluster : {one_switch(), hosts_of(4), racks_of(2, 4)}) {
        expect_same(flat(cluster, algorithm->collective, algorithm->name, ranks, 3e5), 1 << 17);
      }
    }
  }
}

TEST(Fold, RingsOfHostsFoldToOneHost) {
  EXPECT_EQ(expect_same(flat_allreduce(one_switch(), "ring", 100, 1e6), 0), 1);
  EXPECT_EQ(expect_same(flat_allreduce(hosts_of(8), "ring", 256, 4e6), 0), 8);
  EXPECT_EQ(expect_same(flat_allreduce(hosts_of(8), "ring", 128, 4e6), 1 << 20), 8);
  EXPECT_EQ(expect_same(flat_allreduce(racks_of(4, 4), "ring", 128, 1e5), 0), 16);
}

TEST(Fold, HypercubesFoldToOneHost) {
  EXPECT_EQ(expect_same(flat_allreduce(hosts_of(8), "recursive_doubling", 512, 4096), 0), 1);
  EXPECT_EQ(expect_same(flat_allreduce(hosts_of(8), "rabenseifner", 512, 4e6), 0), 1);
  expect_same(flat_allreduce(hosts_of(8), "rabenseifner", 200, 4e6), 1 << 20);
  expect_same(flat_allreduce(racks_of(4, 8), "recursive_doubling", 320, 1e6), 1 << 18);
}

// The pieces of a tree settle into a rhythm; its ranks hardly fold.
TEST(Fold, TreesAreShortenedInTheirPieces) {
  expect_same(flat_allreduce(hosts_of(8), "binomial", 100, 40 << 20), 1 << 20, kSamePieces);
  expect_same(flat_allreduce(hosts_of(8), "double_binary_tree", 128, 40 << 20), 1 << 20, kSamePieces);
  expect_same(flat_allreduce(racks_of(4, 4), "double_binary_tree", 96, 48 << 20), 1 << 20, kSamePieces);
}

TEST(Fold, CompositionsFoldToo) {
  for (const plan::Choice& choice : {plan::Choice{}, plan::Choice{"pairwise", "double_binary_tree", "bruck"},
                                     plan::Choice{"recursive_halving", "rabenseifner", "ring"}}) {
    expect_same(composed(hosts_of(4), 64, 16 << 20, choice), 1 << 20);
    expect_same(composed(racks_of(4, 4), 96, 1e6, choice), 1 << 18);
    expect_same(composed(hosts_of(4), 70, 1e6, choice), 1 << 18);  // the last host has two ranks
  }
  EXPECT_EQ(expect_same(composed(hosts_of(8), 1024, 4e6, {"ring", "rabenseifner", "ring"}), 0), 1);
}

TEST(Fold, StagesThatCutTheirPiecesToo) {
  const Scenario scenario = composed(hosts_of(4), 64, 32 << 20, {"direct", "rabenseifner", "direct"});
  SimulationOptions options = executed(scenario);
  const double folded = microseconds(scenario, options);
  options.folding = Folding::kNever;
  EXPECT_NEAR(folded / microseconds(scenario, options), 1, kSamePieces);
}

TEST(Fold, NothingIsContinuedWhereTheWholeIsCheap) {
  const Scenario scenario = composed(hosts_of(4), 128, 64 << 20, {"direct", "ring", "direct"});
  SimulationOptions options = executed(scenario);
  EXPECT_FALSE(outcome_of(scenario, options).extrapolated);
  options.folding = Folding::kAlways;
  EXPECT_TRUE(outcome_of(scenario, options).extrapolated);
}

TEST(Fold, OfATorus) {
  Scenario scenario = flat_allreduce(hosts_of(4), "ring", 64, 8e6);
  scenario.grid = plan::torus_grid({8, 8});
  scenario.plan = plan::torus(scenario.grid, {});
  EXPECT_EQ(expect_same(scenario, 1 << 20), 4);
}

TEST(Fold, UpToAThousandAndTwentyFour) {
  EXPECT_EQ(expect_same(flat_allreduce(hosts_of(8), "ring", 256, 1e6), 0), 8);
  EXPECT_EQ(expect_same(flat_allreduce(hosts_of(8), "recursive_doubling", 1024, 4e6), 1 << 20), 1);
  EXPECT_EQ(expect_same(flat_allreduce(racks_of(16, 8), "rabenseifner", 1024, 4e6), 1 << 20), 1);
  expect_same(flat_allreduce(hosts_of(8), "double_binary_tree", 1000, 1e6), 1 << 18);
  expect_same(composed(racks_of(16, 8), 512, 4 << 20, {"ring", "ring", "ring"}), 1 << 20);
}

TEST(Fold, OneRanksProgramTurnedIsEveryRanks) {
  SimulationOptions options = with(Folding::kAlways, 0);
  const Outcome outcome = outcome_of(flat_allreduce(hosts_of(8), "ring", 800, 5e5), options);
  EXPECT_EQ(outcome.classes, 8);
  EXPECT_TRUE(outcome.extrapolated);
  const Outcome full = outcome_of(flat_allreduce(hosts_of(8), "ring", 400, 2.5e5), with(Folding::kNever, 0));
  EXPECT_NEAR(outcome.seconds / full.seconds, 799.0 / 399, 1e-3);  // chunks of the same size, twice the rounds
}

TEST(Fold, WhatIsTooLargeIsRefusedWithItsEstimate) {
  SimulationOptions options;
  options.most_steps = 1e4;
  Outcome outcome;
  const auto wrong = simulate(flat_allreduce(hosts_of(8), "binomial", 1000, 64 << 20), options, &outcome);
  ASSERT_TRUE(wrong);
  EXPECT_EQ(wrong->rfind("too large: 1000 different ranks of 1000 have to run about", 0), 0u) << *wrong;
  const auto pairwise = simulate(flat(hosts_of(8), Collective::kAlltoall, "pairwise", 50000, 1e9), {}, &outcome);
  ASSERT_TRUE(pairwise);
  EXPECT_EQ(
      *pairwise,
      "too large: alltoall/pairwise of 50000 ranks has 99999 steps on each that do not repeat: 4999950000 in all");
}

TEST(Extrapolate, FindsTheRhythm) {
  bool whole = true;
  int longest = 0;
  // 100 to start with, then 7 for each step, of which every third takes 4 more.
  const auto time = extrapolate(
      {{1000, 4, 3}},
      [&](const auto& lengths) -> std::optional<double> {
        longest = std::max(longest, static_cast<int>(lengths[0]));
        return 100 + 7.0 * lengths[0] + 4.0 * (lengths[0] / 3);
      },
      &whole);
  EXPECT_DOUBLE_EQ(*time, 100 + 7000 + 4 * 333);
  EXPECT_FALSE(whole);
  EXPECT_LT(longest, 20);
}

TEST(Extrapolate, WhatNeverSettlesIsMeasuredWhole) {
  bool whole = false;
  const auto time = extrapolate(
      {{500, 4, 4}, {3, 1, 1}},
      [](const auto& lengths) -> std::optional<double> { return 1.0 * lengths[0] * lengths[0] + lengths[1]; }, &whole);
  EXPECT_DOUBLE_EQ(*time, 250003);
  EXPECT_TRUE(whole);
}

}  // namespace
}  // namespace roda::sim
