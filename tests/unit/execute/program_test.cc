#include "algorithms/schedule/program.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "algorithms/schedule/verifier.h"
#include "core/execute/stage.h"
#include "tests/unit/execute/world.h"

namespace roda::execute {
namespace {

using schedule::Collective;
using schedule::kNobody;
using schedule::Op;
using schedule::Operand;
using schedule::OpKind;
using schedule::Program;
using schedule::Range;
using schedule::Schedule;
using schedule::Space;
using schedule::Step;
using schedule::StepKind;

Program compiled(Collective collective, const char* name, int rank, int size, int root = 0) {
  Program program;
  const schedule::Algorithm* algorithm = schedule::find_algorithm(collective, name);
  EXPECT_EQ(compile(*algorithm, rank, size, root, &program), std::nullopt);
  return program;
}

int count(const Program& program, OpKind kind) {
  int found = 0;
  for (const auto& lane : program.lanes) {
    for (const Op& op : lane.ops) found += op.kind == kind;
  }
  return found;
}

// The object that a stage runs is the one that is proved. (Of compositions: in compose_world.h.)
TEST(Compile, StagesRunWhatIsProved) {
  constexpr int kSize = 4;
  for (const schedule::Algorithm* algorithm : schedule::algorithms()) {
    std::vector<std::shared_ptr<const Program>> ranks;
    std::vector<const Program*> proved;
    for (int rank = 0; rank < kSize; ++rank) {
      ranks.push_back(std::make_shared<const Program>(compiled(algorithm->collective, algorithm->name, rank, kSize)));
      proved.push_back(ranks.back().get());
    }
    const auto violation = verify(proved);
    EXPECT_FALSE(violation) << violation->to_text();
    testing::run_world(kSize, ExecuteOptions(), [&](testing::Rank& self) {
      const auto rank = static_cast<std::size_t>(self.rank);
      std::unique_ptr<Stage> stage;
      const Status status = make_stage(ranks[rank], self.group, self.options, &stage);
      ASSERT_TRUE(status.ok()) << algorithm->name << ": " << status.message();
      EXPECT_EQ(&stage->program(), proved[rank]);
    });
  }
}

TEST(Compile, DirectReadsOfAllPeersAreOnePass) {
  const Program program = compiled(Collective::kAllreduce, "direct", 1, 4);
  EXPECT_EQ(program.most_sources, 4u);
  EXPECT_EQ(count(program, OpKind::kCombine), 1 + 3);
}

TEST(Compile, WhetherOneRankSumsAChunkUpForAllIsKnown) {
  for (const int size : {2, 3, 8}) {
    EXPECT_TRUE(compiled(Collective::kAllreduce, "direct", size - 1, size).sums_own_chunks);
    for (const char* other : {"oneshot", "twoshot", "ring"}) {
      EXPECT_FALSE(compiled(Collective::kAllreduce, other, size - 1, size).sums_own_chunks) << other;
    }
  }
}

// In `direct` a rank sums its own chunk up where the user wants it and publishes a copy; what it reads in the second
// half nobody asks it for any more. So only what peers will sum up goes into the block, and nothing is brought out.
TEST(Compile, ResultsAreMadeWhereTheUserWantsThem) {
  const Program program = compiled(Collective::kAllreduce, "direct", 1, 4);
  int straight = 0;
  int published = 0;
  for (const Op& op : program.lanes[0].ops) {
    straight += op.kind == OpKind::kCombine && op.dst.in_user;
    published += op.publishes;
  }
  EXPECT_EQ(straight, 4);
  EXPECT_EQ(published, 1);
  EXPECT_TRUE(program.copy_out.empty());
  ASSERT_EQ(program.copy_in.size(), 2u);
  EXPECT_EQ(program.copy_in[0].count, 1);
  EXPECT_EQ(program.copy_in[1].first, 2);
  EXPECT_EQ(program.copy_in[1].count, 2);
  ASSERT_EQ(program.carry.size(), 1u);
  EXPECT_EQ(program.carry[0].first, 1);
}

TEST(Compile, OnlyWhatPeersReadIsStaged) {
  const Program gather = compiled(Collective::kAllgather, "direct", 2, 4);
  ASSERT_EQ(gather.copy_in.size(), 1u);
  EXPECT_EQ(gather.copy_in[0].first, 2);
  EXPECT_EQ(gather.copy_in[0].count, 1);
  EXPECT_TRUE(gather.copy_out.empty());
  EXPECT_EQ(gather.carry.size(), 1u);

  const Program leaf = compiled(Collective::kBroadcast, "direct", 1, 4);
  EXPECT_TRUE(leaf.copy_in.empty());
  EXPECT_TRUE(leaf.copy_out.empty());
  EXPECT_FALSE(leaf.uses_block);
}

// How a chunk is stored hangs on how far its reader is.
TEST(Compile, EveryChunkKnowsItsReader) {
  using Readers = std::vector<std::int32_t>;
  const Program sum = compiled(Collective::kAllreduce, "direct", 1, 4);
  EXPECT_EQ(sum.readers[1], (Readers{0, schedule::kAllPeers, 2, 3}));
  EXPECT_EQ(compiled(Collective::kAllreduce, "direct", 1, 2).readers[1], (Readers{0, 0}));
  const Program leaf = compiled(Collective::kBroadcast, "direct", 1, 4);
  EXPECT_EQ(leaf.readers[1], Readers(leaf.readers[1].size(), kNobody));
}

TEST(Compile, LateReadersAreKnownOnBothSides) {
  const Program program = compiled(Collective::kAllreduce, "oneshot", 0, 3);
  EXPECT_EQ(program.late_readers, (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(program.tell_readers, (std::vector<std::int32_t>{1, 2}));
  EXPECT_TRUE(compiled(Collective::kAllreduce, "direct", 0, 3).late_readers.empty());
}

// Two ranks; rank 1 receives the chunks [first, first + 2) into Scratch there, and copies them on.
Schedule through_scratch(int rank, int first) {
  Schedule schedule;
  schedule.collective = Collective::kBroadcast;
  schedule.rank = rank;
  schedule.size = 2;
  schedule.chunks = 4;
  schedule.scratch_chunks = 8;
  const Range data{Space::kOutput, first % 4, 2};
  const Range scratch{Space::kScratch, first, 2};
  schedule.lanes.resize(1);
  if (rank == 0) {
    schedule.lanes[0].steps = {{StepKind::kSend, 1, data, {}, 0}};
  } else {
    schedule.lanes[0].steps = {{StepKind::kRecv, 0, {}, scratch, 0}, {StepKind::kCopy, 0, scratch, data, 0}};
  }
  return schedule;
}

schedule::Algorithm as_algorithm(std::uint32_t needs, Schedule (*make)(int, int, int)) {
  return {"through_scratch", "", Collective::kBroadcast, needs, [](int) { return true; }, make};
}

TEST(Compile, ScratchHoldsCopiesOfTheData) {
  Program program;
  const auto in_second =
      as_algorithm(schedule::kNeedsMessages, [](int rank, int, int) { return through_scratch(rank, 5); });
  ASSERT_EQ(compile(in_second, 1, 2, 0, &program), std::nullopt);
  EXPECT_EQ(program.scratch_copies, 2);
  const Operand& into = program.lanes[0].ops[0].dst;
  EXPECT_EQ(into.space, Space::kScratch);
  EXPECT_EQ(into.copy, 1);
  EXPECT_EQ(into.first, 1);
  EXPECT_EQ(into.count, 2);
}

TEST(Compile, ChunksOfScratchThatAreNoNeighboursInTheDataAreRefused) {
  Program program;
  const auto over_the_end =
      as_algorithm(schedule::kNeedsMessages, [](int rank, int, int) { return through_scratch(rank, 3); });
  EXPECT_TRUE(compile(over_the_end, 1, 2, 0, &program));
}

TEST(Compile, ScheduleThatNeverEndsIsRefused) {
  const auto waits = as_algorithm(schedule::kNeedsSignals, [](int rank, int, int) {
    Schedule schedule = through_scratch(rank, 0);
    schedule.lanes[0].steps = {{StepKind::kWait, 1 - rank, {}, {}, 0}};
    return schedule;
  });
  Program program;
  EXPECT_TRUE(compile(waits, 0, 2, 0, &program));
}

TEST(Tag, EverySliceOfTheLongestPlanHasItsOwn) {
  std::set<std::uint64_t> tags;
  constexpr std::uint32_t kStages = plan::kMostStages * plan::kLevelSlicesInFlight;
  for (std::uint32_t stage = 0; stage < kStages; ++stage) tags.insert(Tag{1, 2, stage, 255, 7}.packed());
  EXPECT_EQ(tags.size(), kStages);
}

TEST(Tag, FieldsDoNotMix) {
  const Tag base{1, 2, 3, 4, 5};
  EXPECT_NE(base.packed(), (Tag{2, 2, 3, 4, 5}.packed()));
  EXPECT_NE(base.packed(), (Tag{1, 3, 3, 4, 5}.packed()));
  EXPECT_NE(base.packed(), (Tag{1, 2, 4, 4, 5}.packed()));
  EXPECT_NE(base.packed(), (Tag{1, 2, 3, 5, 5}.packed()));
  EXPECT_NE(base.packed(), (Tag{1, 2, 3, 4, 6}.packed()));
  EXPECT_EQ((Tag{0, 1u << 24, 0, 0, 0}.packed()), 0u);
}

}  // namespace
}  // namespace roda::execute
