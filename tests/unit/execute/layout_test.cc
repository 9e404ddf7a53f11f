#include "core/execute/layout.h"

#include <gtest/gtest.h>

#include <vector>

#include "algorithms/plan/compile.h"
#include "algorithms/plan/plan.h"

namespace roda::execute {
namespace {

using schedule::Collective;
using schedule::Space;

TEST(BalancedBegin, CoversEverythingInOrderOnLines) {
  for (const std::size_t element : {1, 2, 4, 8}) {
    for (const std::size_t count : {0, 1, 15, 16, 17, 1000, 100003}) {
      for (std::size_t chunks = 1; chunks <= 13; ++chunks) {
        EXPECT_EQ(balanced_begin(count, element, chunks, 0), 0u);
        EXPECT_EQ(balanced_begin(count, element, chunks, chunks), count);
        for (std::size_t c = 0; c < chunks; ++c) {
          const std::size_t begin = balanced_begin(count, element, chunks, c);
          EXPECT_LE(begin, balanced_begin(count, element, chunks, c + 1));
          EXPECT_TRUE(begin == count || begin * element % kLine == 0);
        }
      }
    }
  }
}

TEST(BalancedBegin, ChunksDifferByALineAtMost) {
  std::size_t least = SIZE_MAX;
  std::size_t most = 0;
  for (std::size_t c = 0; c < 7; ++c) {
    const std::size_t length = balanced_begin(16000, 4, 7, c + 1) - balanced_begin(16000, 4, 7, c);
    least = std::min(least, length);
    most = std::max(most, length);
  }
  EXPECT_LE(most - least, kLine / 4);
}

// Every slice's chunks together are the whole of the user's data, each byte once.
void expect_covers(const Layout& layout, Space space, std::size_t bytes) {
  std::vector<int> hits(bytes);
  SpaceMap maps[2];
  for (std::size_t slice = 0; slice < layout.slices(); ++slice) {
    layout.map(slice, &maps[0], &maps[1]);
    const SpaceMap& map = maps[space == Space::kOutput];
    for (std::size_t c = 0; c < map.user.size(); ++c) {
      const std::size_t length = map.prefix[c + 1] - map.prefix[c];
      for (std::size_t b = 0; b < length; ++b) ++hits.at(map.user[c] + b);
      EXPECT_TRUE(length == 0 || map.block[c] + length <= layout.block_bytes(space));
    }
  }
  for (const int hit : hits) EXPECT_EQ(hit, 1);
}

TEST(Layout, SlicesOfAnAllreduceCoverIt) {
  StageArgs args;
  args.count = 5003;
  Layout layout;
  layout.plan(args, 1, 3, 3, 1024, true);
  EXPECT_EQ(layout.slices(), 20u);
  expect_covers(layout, Space::kOutput, 5003 * 4);
  expect_covers(layout, Space::kInput, 5003 * 4);
}

TEST(Layout, AnEmptyTensorIsOneSlice) {
  StageArgs args;
  Layout layout;
  layout.plan(args, 0, 2, 2, 1024, false);
  EXPECT_EQ(layout.slices(), 1u);
}

TEST(Layout, GatheredChunksKeepTheirPlacesOverSlices) {
  const std::size_t counts[] = {100, 0, 777, 3};
  StageArgs args;
  args.collective = RODA_ALLGATHER;
  args.recv_counts = counts;
  Layout layout;
  layout.plan(args, 2, 4, 4, 1024, true);
  EXPECT_GT(layout.slices(), 1u);
  EXPECT_EQ(layout.contribution_begin(), 400u);
  expect_covers(layout, Space::kOutput, 880 * 4);
  layout.plan(args, 2, 4, 4, 1024, false);
  EXPECT_EQ(layout.slices(), 1u);
  expect_covers(layout, Space::kOutput, 880 * 4);
}

TEST(Layout, ScatteredChunksAreEveryRanksShare) {
  const std::size_t counts[] = {100, 0, 777, 3};
  StageArgs args;
  args.collective = RODA_REDUCESCATTER;
  args.recv_counts = counts;
  Layout layout;
  layout.plan(args, 2, 4, 4, 1024, true);
  expect_covers(layout, Space::kInput, 880 * 4);
  expect_covers(layout, Space::kOutput, 777 * 4);
}

TEST(Layout, AlltoallBlocksLieAlikeOnAllRanks) {
  const std::size_t sent[] = {5, 600, 1};
  const std::size_t received[] = {5, 2, 300};
  StageArgs args;
  args.collective = RODA_ALLTOALL;
  args.send_counts = sent;
  args.recv_counts = received;
  args.max_count = 1000;
  Layout layout;
  layout.plan(args, 0, 3, 3, 3072, true);
  SpaceMap input, output;
  layout.map(0, &input, &output);
  for (std::size_t c = 0; c < 3; ++c) EXPECT_EQ(input.block[c], output.block[c]);
  EXPECT_EQ(layout.slices(), 4u);
  expect_covers(layout, Space::kInput, 606 * 4);
  expect_covers(layout, Space::kOutput, 307 * 4);
}

// Slices of a composition hold a part of each chunk, in the user's buffers and in the program's regions.
TEST(Layout, SlicesOfACompositionCoverItsChunks) {
  const plan::Grid grid = plan::nested_grid({{"host", {0, 0, 1}}});
  const std::vector<std::size_t> counts = {1000, 3, 777};
  for (const Collective collective : {Collective::kAllreduce, Collective::kAllgather, Collective::kReduceScatter}) {
    const plan::Plan plan = plan::hierarchical(collective, grid, {plan::Choice()});
    const schedule::Program program = plan::Compiler(plan, grid).outline(1);
    StageArgs args;
    args.collective = static_cast<std::int32_t>(collective);
    args.count = 1780;
    args.recv_counts = counts.data();
    Layout layout;
    ASSERT_TRUE(layout.plan(args, program, 512).ok());
    EXPECT_EQ(layout.slices(), 14u);
    for (const Space space : {Space::kInput, Space::kOutput}) {
      const bool is_own = !schedule::is_cut(collective) && chunk_count(program, space) == 1;
      std::vector<int> hits(4 * (is_own ? counts[1] : args.count));
      SpaceMap maps[2], scratch;
      for (std::size_t slice = 0; slice < layout.slices(); ++slice) {
        layout.map(slice, &maps[0], &maps[1]);
        layout.map_scratch(slice, maps[1], &scratch);
        const SpaceMap& map = maps[space == Space::kOutput];
        for (std::size_t c = 0; c < map.user.size(); ++c) {
          for (std::size_t b = map.prefix[c]; b < map.prefix[c + 1]; ++b) ++hits.at(map.user[c] + b - map.prefix[c]);
        }
        for (const schedule::Region& region : program.regions) {
          const auto bytes = scratch.bytes(region.first, region.count);
          EXPECT_LE(bytes, layout.most_bytes(Space::kScratch, region.first, region.count));
          EXPECT_EQ(region.count == 0 ? 0 : scratch.user[index(region.first)], 0u);
        }
      }
      for (const int hit : hits) EXPECT_EQ(hit, 1);
    }
  }
}

}  // namespace
}  // namespace roda::execute
