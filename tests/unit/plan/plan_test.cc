// Grids, parts and what is refused.
#include "algorithms/plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "algorithms/plan/compile.h"
#include "algorithms/plan/slices.h"
#include "algorithms/schedule/schedule.h"
#include "tests/unit/plan/proved.h"

namespace roda::plan {
namespace {

using schedule::Collective;

// Hosts of these sizes, one after the other.
Grid hosts(const std::vector<int>& sizes) {
  std::vector<std::int32_t> host_of;
  for (std::size_t host = 0; host < sizes.size(); ++host) {
    host_of.insert(host_of.end(), static_cast<std::size_t>(sizes[host]), static_cast<std::int32_t>(host));
  }
  return nested_grid({{"host", host_of}});
}

std::vector<std::int32_t> members(const Part& part) {
  return part.members == nullptr ? std::vector<std::int32_t>() : *part.members;
}

TEST(Grid, CountsInsideEachUnit) {
  const Grid grid = nested_grid({{"host", {7, 7, 9, 9, 4, 4}}, {"rack", {1, 1, 1, 1, 0, 0}}});
  EXPECT_EQ(grid.names(), (std::vector<std::string>{"host", "rack", "world"}));
  EXPECT_EQ(grid.places()[0], (std::vector<std::int32_t>{0, 0, 0}));
  EXPECT_EQ(grid.places()[3], (std::vector<std::int32_t>{1, 1, 0}));
  EXPECT_EQ(grid.places()[5], (std::vector<std::int32_t>{1, 0, 1}));
}

TEST(Grid, OfATorusCountsTheFirstDimensionFirst) {
  const Grid grid = torus_grid({3, 2});
  EXPECT_EQ(grid.ranks(), 6);
  EXPECT_EQ(grid.places()[4], (std::vector<std::int32_t>{1, 1}));
  EXPECT_EQ(even_dims(12), (std::vector<std::int32_t>{4, 3}));
  EXPECT_EQ(even_dims(7), (std::vector<std::int32_t>{7, 1}));
}

TEST(Plan, OfTwoLevelsReadsAsItIsWritten) {
  const Grid grid = hosts({2, 2, 2});
  const Plan plan = hierarchical(grid, {{"direct", "", "direct"}, {"", "rabenseifner", ""}});
  EXPECT_EQ(to_text(plan, grid),
            "hierarchical: reducescatter(host, direct); allreduce(world, rabenseifner); allgather(host, direct)");
}

TEST(Plan, LeavesOutAxesWithoutNeighbours) {
  EXPECT_EQ(hierarchical(hosts({1, 1, 1}), {}).stages.size(), 1u);
  EXPECT_EQ(hierarchical(hosts({4}), {}).stages.size(), 1u);
  EXPECT_TRUE(hierarchical(hosts({1}), {}).stages.empty());
}

TEST(Plan, KeepsAnAxisWithoutNeighboursWhereThatIsWanted) {
  const Grid grid = hosts({1, 1, 1});
  std::vector<Choice> choices(2);
  choices[0].even_alone = true;
  const Plan plan = hierarchical(grid, choices);
  EXPECT_EQ(to_text(plan, grid),
            "hierarchical: reducescatter(host, ring); allreduce(world, ring); allgather(host, ring)");
  const Compiler parts(plan, grid);
  EXPECT_EQ(members(parts.part(0, 2)), (std::vector<std::int32_t>{2}));
  EXPECT_TRUE(parts.part(0, 2).has_work);
  EXPECT_EQ(parts.part(0, 2).shares, 1);
  EXPECT_EQ(members(parts.part(1, 2)), (std::vector<std::int32_t>{0, 1, 2}));
}

TEST(Parts, OfARankWithoutNeighboursHaveNoWorkWhereOthersHaveSome) {
  const Grid grid = hosts({1, 2, 1});
  const Plan plan = hierarchical(grid, {});
  const Compiler parts(plan, grid);
  EXPECT_FALSE(parts.part(0, 0).has_work);
  EXPECT_TRUE(parts.part(0, 1).has_work);
  EXPECT_TRUE(parts.part(1, 0).has_work);
}

TEST(Parts, ShareOutTheData) {
  const Grid grid = hosts({2, 2, 2});
  const Plan plan = hierarchical(grid, {});
  const Compiler parts(plan, grid);
  const Part inner = parts.part(0, 3);
  EXPECT_EQ(members(inner), (std::vector<std::int32_t>{2, 3}));
  EXPECT_EQ(inner.index, 1);
  EXPECT_EQ(inner.shares, 2);
  EXPECT_EQ(inner.parts, 1);
  const Part across = parts.part(1, 3);
  EXPECT_EQ(members(across), (std::vector<std::int32_t>{1, 3, 5}));
  EXPECT_EQ(across.part, 1);
  EXPECT_EQ(across.parts, 2);
}

TEST(Parts, OfUnevenHostsFollowTheSmallest) {
  const Grid grid = hosts({2, 3, 4});
  const Plan plan = hierarchical(grid, {});
  const Compiler parts(plan, grid);
  EXPECT_EQ(parts.part(0, 8).shares, 2);
  EXPECT_EQ(members(parts.part(0, 8)).size(), 4u);
  EXPECT_EQ(parts.part(1, 8).members, nullptr);
  EXPECT_EQ(members(parts.part(1, 6)), (std::vector<std::int32_t>{1, 3, 6}));
}

TEST(WrongPlans, NameTheAlgorithmThatIsMissing) {
  const Grid grid = hosts({2, 2});
  const Plan plan = hierarchical(grid, {{"circle", "ring", "ring"}});
  EXPECT_EQ(verify(plan, grid)->message, "stage 0: there is no algorithm reducescatter/circle");
  // One that works out of place is composed like the others.
  const Plan outside = hierarchical(hosts({1, 1}), {{"", "oneshot", ""}});
  EXPECT_FALSE(verify(outside, hosts({1, 1})));
}

// A plan that skips the other hosts sums too little, and the verifier says so.
TEST(WrongPlans, AWrongSumIsFound) {
  const Grid grid = hosts({2, 2});
  Plan plan = hierarchical(grid, {});
  plan.stages.erase(plan.stages.begin() + 1);
  EXPECT_EQ(verify(plan, grid)->message, "output[0] ends with 2 of 4 contributions");
  plan = hierarchical(grid, {});
  plan.stages.insert(plan.stages.begin() + 1, plan.stages[1]);
  EXPECT_NE(verify(plan, grid)->message.find("twice"), std::string::npos);
}

// Any stage of a composition taken away leaves somebody without data, or with half a sum.
TEST(WrongPlans, AStageThatIsMissingIsFound) {
  const Grid grid = hosts({1, 3, 2});
  for (const auto collective : {Collective::kBroadcast, Collective::kReduce}) {
    const Plan whole = hierarchical(collective, grid, {});
    for (std::size_t stage = 0; stage < whole.stages.size(); ++stage) {
      Plan plan = whole;
      plan.stages.erase(plan.stages.begin() + static_cast<std::ptrdiff_t>(stage));
      EXPECT_TRUE(verify(plan, grid)) << to_text(plan, grid);
    }
  }
}

TEST(Plan, OfAReduceGoesOutwards) {
  const Grid grid = hosts({2, 2});
  EXPECT_EQ(to_text(hierarchical(Collective::kReduce, grid, {}), grid),
            "hierarchical: reduce(host, binomial); reduce(world, binomial)");
}

TEST(Plan, OfUnevenHostsHandsBlocksOver) {
  const Grid grid = hosts({1, 2, 3});
  EXPECT_EQ(to_text(hierarchical(Collective::kAllgather, grid, {}), grid),
            "hierarchical: alltoall(host, pairwise); allgather(world, ring); allgather(host, ring)");
  EXPECT_EQ(to_text(hierarchical(Collective::kReduceScatter, hosts({2, 2}), {}), grid),
            "hierarchical: reducescatter(host, ring); reducescatter(world, ring)");
}

// The programs of all ranks, to be spoilt.
std::vector<schedule::Program> compiled(const Plan& plan, const Grid& grid) {
  const Compiler compiler(plan, grid);
  std::vector<schedule::Program> ranks(at(grid.ranks()));
  for (schedule::Program& program : ranks) {
    EXPECT_FALSE(compiler.compile(static_cast<std::int32_t>(&program - ranks.data()), &program));
  }
  return ranks;
}

std::string verdict(const std::vector<schedule::Program>& ranks) {
  const auto violation = schedule::verify(ranks);
  return violation ? violation->message : "";
}

TEST(Compiled, SaysWhatARankDoesInWords) {
  const Grid grid = hosts({2, 2});
  const auto ranks = compiled(hierarchical(grid, {{"direct", "", "direct"}, {"", "ring", ""}}), grid);
  EXPECT_EQ(verdict(ranks), "");
  EXPECT_EQ(to_text(ranks[1]),
            "allreduce/hierarchical rank 1 of 4, 2 chunks\n"
            "  lane 0 step 0: call scratch[0] = input[0..2) by reducescatter/direct among ranks 0, 1\n"
            "  lane 0 step 1: call scratch[0] = scratch[0] by allreduce/ring among ranks 1, 3\n"
            "  lane 0 step 2: call output[0..2) = scratch[0] by allgather/direct among ranks 0, 1\n");
}

TEST(Compiled, NativeCallsAreOfOneOrder) {
  const Grid grid = hosts({2, 2});
  const char* native = schedule::kNative;
  auto ranks = compiled(hierarchical(grid, {{native, native, native}}), grid);
  EXPECT_EQ(verdict(ranks), "");
  std::swap(ranks[3].calls[0], ranks[3].calls[2]);
  EXPECT_EQ(verdict(ranks), "calls in another order than rank 2 of the same group");
}

TEST(Compiled, ANativeCollectiveIsACompositionOfItself) {
  for (const Collective collective : schedule::collectives()) {
    std::vector<schedule::Program> ranks;
    for (int rank = 0; rank < 4; ++rank) ranks.push_back(schedule::native_program(collective, rank, 4, 0));
    EXPECT_EQ(verdict(ranks), "") << schedule::collective_name(collective);
  }
}

// Each op of each rank's program in turn; `spoil` says whether there was something to spoil.
void spoil_each(const std::string& what, const std::function<bool(schedule::Program&, std::size_t op)>& spoil) {
  for (const Grid& grid : {hosts({2, 2}), hosts({1, 3, 2})}) {
    for (const auto collective : {Collective::kAllreduce, Collective::kAllgather, Collective::kReduceScatter,
                                  Collective::kAlltoall, Collective::kBroadcast, Collective::kReduce}) {
      const auto whole = compiled(hierarchical(collective, grid, {}), grid);
      ASSERT_EQ(verdict(whole), "");
      for (std::size_t rank = 0; rank < whole.size(); ++rank) {
        for (std::size_t op = 0; op < whole[rank].lanes[0].ops.size(); ++op) {
          auto ranks = whole;
          if (!spoil(ranks[rank], op)) continue;
          EXPECT_NE(verdict(ranks), "") << what << " in op " << op << " of\n" << to_text(whole[rank]);
        }
      }
    }
  }
}

TEST(Compiled, EveryOpIsNeededInItsPlace) {
  const auto ops_of = [](schedule::Program& program) -> std::vector<schedule::Op>& { return program.lanes[0].ops; };
  spoil_each("nothing", [&](schedule::Program& program, std::size_t op) {
    ops_of(program).erase(ops_of(program).begin() + static_cast<std::ptrdiff_t>(op));
    return true;
  });
  spoil_each("what comes next", [&](schedule::Program& program, std::size_t op) {
    if (op + 1 == ops_of(program).size()) return false;
    schedule::Op &one = ops_of(program)[op], &next = ops_of(program)[op + 1];
    std::swap(one, next);
    return one.kind != next.kind || one.kind == schedule::OpKind::kCall;
  });
  spoil_each("another place written", [&](schedule::Program& program, std::size_t op) {
    schedule::Operand& dst = ops_of(program)[op].dst;
    const std::int32_t chunks = dst.space == schedule::Space::kScratch
                                    ? static_cast<std::int32_t>(program.scratch.size())
                                    : chunk_count(program, dst.space);
    if (dst.count == 0 || dst.count == chunks) return false;
    dst.first += dst.first + dst.count < chunks ? 1 : -1;
    return true;
  });
}

TEST(Compiled, ABufferIsNotReadAfterItServesAnotherRegion) {
  const Grid grid = hosts({2, 2});
  auto ranks = compiled(hierarchical(Collective::kAllgather, grid, {}), grid);
  auto& spoilt = ranks[0];
  ASSERT_FALSE(spoilt.regions.empty());
  // What came is brought into order out of a region whose memory a later one has taken.
  const auto extra = static_cast<std::int32_t>(spoilt.scratch.size());
  spoilt.regions.push_back({extra, 1, spoilt.regions.front().buffer});
  spoilt.scratch.push_back(spoilt.scratch.front());
  std::vector<schedule::Op>& ops = spoilt.lanes[0].ops;
  const auto first_read =
      std::ranges::find(ops, schedule::Space::kScratch, [](const auto& op) { return op.src.space; });
  schedule::Op overwrite{.kind = schedule::OpKind::kCombine};
  overwrite.dst = {schedule::Space::kScratch, schedule::Space::kScratch, extra, 1};
  overwrite.source = static_cast<std::uint32_t>(spoilt.sources.size());
  overwrite.sources = 1;
  spoilt.sources.push_back({-1, {schedule::Space::kInput, schedule::Space::kInput, 0, 1}});
  ops.insert(first_read, overwrite);
  EXPECT_EQ(verdict(ranks), "reads scratch[0] of rank 0, which is undefined");
}

TEST(Compiled, InputAndOutputMayBeOneMemory) {
  const Grid grid = hosts({2});
  auto ranks = compiled(hierarchical(grid, {{"", "recursive_doubling", ""}}), grid);
  EXPECT_EQ(verdict(ranks), "");
  for (schedule::Program& rank : ranks) {  // sums the input up once more
    rank.lanes[0].ops.push_back(rank.lanes[0].ops.front());
    rank.lanes[0].ops.back().source = 1;
    rank.calls.push_back(rank.calls.front());
    rank.calls.back().stage = rank.stages++;
  }
  EXPECT_NE(verdict(ranks).find("twice"), std::string::npos) << verdict(ranks);
}

// How plans are cut: messages in slices, memory of peers in blocks, a composition's slices once more by its stages.
Cut cut_of_one(Collective collective, const char* algorithm) {
  return cut_of({algorithm, collective, {{collective, algorithm, 0}}});
}

TEST(Slices, OfOneStage) {
  const SliceSizes sizes;
  const Cut ring = cut_of_one(Collective::kAllreduce, "ring");
  EXPECT_EQ(ring.whole.bytes, sizes.slice_bytes);
  EXPECT_EQ(ring.whole.in_flight, sizes.slices_in_flight);
  EXPECT_TRUE(ring.stages.empty());
  const Cut direct = cut_of_one(Collective::kAllreduce, "direct");  // reads its peers' memory
  EXPECT_EQ(direct.whole.bytes, sizes.block_bytes);
  EXPECT_EQ(direct.whole.in_flight, kBlocksPerSlot);
  EXPECT_EQ(cut_of_one(Collective::kAllgather, "ring").whole.bytes, 0u);
  EXPECT_EQ(cut_of_one(Collective::kAllgather, "direct").whole.bytes, sizes.block_bytes);
  EXPECT_EQ(cut_of_one(Collective::kAdasum, "vector_halving").whole.bytes, 0u);
}

TEST(Slices, AreCutOnceMoreByStages) {
  const SliceSizes sizes;
  const Grid grid = nested_grid({{"host", {0, 0, 1, 1}}});
  const Cut cut = cut_of(hierarchical(grid, {{"direct", "ring", "direct"}}));
  EXPECT_EQ(cut.whole.bytes, sizes.level_bytes);
  EXPECT_EQ(cut.whole.in_flight, 3u);
  ASSERT_EQ(cut.stages.size(), 3u);
  EXPECT_EQ(cut.stages[0].bytes, sizes.block_bytes);
  EXPECT_EQ(cut.stages[1].bytes, sizes.slice_bytes);
  EXPECT_EQ(cut.stages[2].in_flight, kBlocksPerSlot);
}

TEST(Slices, AreShorterWhereFewShareThem) {
  const SliceSizes sizes;
  EXPECT_EQ(level_slice(sizes, 1), sizes.level_bytes);
  EXPECT_EQ(level_slice(sizes, 2), 2 * sizes.share_bytes);
  EXPECT_EQ(level_slice(sizes, 16), sizes.level_bytes);
}

TEST(Slices, OfManyLevelsAsManyAreUnderWayAsOfOne) {
  const Grid one = nested_grid({{"host", {0, 0, 1, 1}}});
  const Grid three = nested_grid({{"socket", {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7}},
                                  {"host", {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}},
                                  {"rack", {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1}}});
  const Plan deep = hierarchical(three, {Choice()});
  EXPECT_EQ(deep.stages.size(), 7u);
  EXPECT_EQ(cut_of(deep).whole.in_flight, cut_of(hierarchical(one, {Choice()})).whole.in_flight);
}

}  // namespace
}  // namespace roda::plan
