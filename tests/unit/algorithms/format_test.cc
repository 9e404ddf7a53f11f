// Messages in wire formats: every rank ends with the same bits, and how often a contribution is rounded is counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/schedule/format.h"
#include "tests/unit/algorithms/schedules.h"

namespace roda::schedule {
namespace {

const Algorithm& formatted(const std::string& name, Collective collective = Collective::kAllreduce) {
  const Algorithm* found = find_algorithm(collective, name);
  EXPECT_NE(found, nullptr) << name;
  return *found;
}

bool is_power_of_two(int size) { return std::has_single_bit(static_cast<unsigned>(size)); }

int log2_of(int size) { return static_cast<int>(std::bit_width(static_cast<unsigned>(size))) - 1; }

TEST(Format, RoundsAsOftenAsTheWayIsLong) {
  for (int size = 2; size <= kMostFormatted; ++size) {
    const auto most = [&](const std::string& name) {
      const Rounding& proved = rounding_of(formatted(name), size);
      EXPECT_EQ(proved.wrong, "") << name << " of " << size;
      EXPECT_TRUE(formatted(name).accepts(size)) << name << " of " << size;
      return proved.most;
    };
    EXPECT_EQ(most("ordered/int8"), 2);
    EXPECT_EQ(most("ring/int8"), size);
    EXPECT_EQ(most("ring/bf16_stochastic"), size);
    EXPECT_EQ(most("rabenseifner/int4"), log2_of(size) + (is_power_of_two(size) ? 1 : 2));
    EXPECT_LE(most("binomial/fp16"), log2_of(size) + 2);
    EXPECT_LE(most("double_binary_tree/fp8"), log2_of(size) + 3);
  }
}

// A rank that passes on what it got encodes it to the same bytes: a gathered block is rounded by its owner alone.
TEST(Format, RoundsBlocksOfTheRanks) {
  for (int size = 2; size <= kMostFormatted; ++size) {
    const auto most = [&](Collective collective, const std::string& name) {
      const Algorithm& algorithm = formatted(name, collective);
      EXPECT_EQ(rounding_of(algorithm, size).wrong, "") << name << " of " << size;
      return algorithm.accepts(size) ? rounding_of(algorithm, size).most : -1;
    };
    EXPECT_EQ(most(Collective::kAllgather, "ring/int4"), 1);
    EXPECT_EQ(most(Collective::kAllgather, "ring/int8_stochastic"), 1);
    EXPECT_EQ(most(Collective::kAllgather, "bruck/int8"), 1);
    EXPECT_EQ(most(Collective::kReduceScatter, "ordered/int8"), 1);
    EXPECT_EQ(most(Collective::kReduceScatter, "pairwise/int4"), 1);
    EXPECT_EQ(most(Collective::kReduceScatter, "ring/int8"), size - 1);
    const int halved = most(Collective::kReduceScatter, "recursive_halving/bf16");
    EXPECT_GE(halved, log2_of(size));
    EXPECT_LE(halved, log2_of(size) + (is_power_of_two(size) ? 0 : 2));
  }
}

// Blocks of a format begin where a rank's block does, whatever it travels beside.
TEST(Format, SendsEachRanksBlockByItself) {
  for (const auto& [collective, name] : {std::pair(Collective::kAllgather, "bruck/int8"),
                                         std::pair(Collective::kReduceScatter, "recursive_halving/int8")}) {
    const Schedule schedule = formatted(name, collective).make(1, 7, 0);
    for (const Step& step : schedule.lanes[0].steps) {
      if (step.format == RODA_WIRE_NONE) continue;
      EXPECT_LE(step.src.count, 1) << name;
      EXPECT_LE(step.dst.count, 1) << name;
    }
  }
}

// Folded ranks get a result that was rounded for them alone, and ranks that draw apart come to other sums.
TEST(Format, IsRefusedWhereRanksWouldEndWithOtherBits) {
  for (int size = 2; size <= kMostFormatted; ++size) {
    EXPECT_EQ(formatted("recursive_doubling/int8_stochastic").accepts(size), size == 2) << size;
    const Algorithm& nearest = formatted("recursive_doubling/bf16");
    EXPECT_EQ(nearest.accepts(size), is_power_of_two(size)) << size;
    if (!is_power_of_two(size)) continue;
    EXPECT_EQ(rounding_of(nearest, size).most, log2_of(size));
  }
  EXPECT_TRUE(contains(rounding_of(formatted("recursive_doubling/bf16"), 3).wrong, "rounded otherwise"));
  EXPECT_FALSE(formatted("ring/int8").accepts(kMostFormatted + 1));
}

TEST(Format, BelongsToMessagesOfThreeCollectives) {
  for (const char* name :
       {"direct/int8", "twoshot/int8", "ring/int7", "ring/", "/int8", "ring/int8/int8", "ring/none"}) {
    EXPECT_EQ(find_algorithm(Collective::kAllreduce, name), nullptr) << name;
  }
  EXPECT_EQ(find_algorithm(Collective::kBroadcast, "binomial/int8"), nullptr);
  EXPECT_EQ(find_algorithm(Collective::kReduceScatter, "direct/int8"), nullptr);
  auto ranks = by_hand(Collective::kBroadcast, 2, {{}, {}});
  steps_of(ranks, 0) = {step::round(output(0), RODA_WIRE_INT8)};
  EXPECT_TRUE(contains(verdict(ranks), "messages of broadcast have no formats"));
  ranks = by_hand(Collective::kAllreduce, 1, {{step::copy(output(0), output(0))}, {}});
  steps_of(ranks, 0)[0].format = RODA_WIRE_INT8;
  EXPECT_TRUE(contains(verdict(ranks), "is no message that has a format"));
  steps_of(ranks, 0) = {step::round(output(0), RODA_WIRE_NONE)};
  EXPECT_TRUE(contains(verdict(ranks), "rounds to no format"));
}

// In rank order the bits do not depend on who sums up: an owner rounds its own contribution as all others do theirs.
TEST(Format, RoundsAnOwnersContributionToo) {
  for (int rank = 0; rank < 3; ++rank) {
    const std::vector<Step> steps = formatted("ordered/int8").make(rank, 3, 0).lanes[0].steps;
    EXPECT_EQ(std::ranges::count(steps, step::round(output(rank), RODA_WIRE_INT8)), 1) << rank;  // the sum
    EXPECT_EQ(steps[2], step::round(output(rank), RODA_WIRE_INT8, 3))
        << rank << ", to which is added what the sum lost";
  }
}

TEST(Format, KnowsWhereRanksMayRoundInTheirOwnWay) {
  for (const char* name :
       {"ordered/int8", "ring/int4", "rabenseifner/int8", "binomial/int4", "double_binary_tree/int8"}) {
    EXPECT_TRUE(rounds_apart(formatted(name), 4)) << name;
  }
  EXPECT_FALSE(rounds_apart(formatted("recursive_doubling/int8"), 4));
}

// The verifier finds a rank that keeps what it had instead of what it sent, and one that decodes otherwise.
TEST(Format, NeedsEveryRoundingAndEqualFormats) {
  using enum Collective;
  const std::pair<Collective, const char*> algorithms[] = {
      {kAllreduce, "ordered/int8"},  {kAllreduce, "ring/int8"},  {kAllreduce, "rabenseifner/int8"},
      {kAllreduce, "binomial/int8"}, {kAllgather, "bruck/int8"}, {kAllreduce, "recursive_doubling/int8"},
      {kAllgather, "ring/int8"}};
  for (const auto& [collective, name] : algorithms) {
    const int size = 4;
    int rounds = 0, messages = 0;
    for (int rank = 0; rank < size; ++rank) {
      const std::size_t steps = formatted(name, collective).make(rank, size, 0).lanes[0].steps.size();
      for (std::size_t i = 0; i < steps; ++i) {
        auto ranks = schedules_of(collective, name, size);
        std::vector<Step>& own = steps_of(ranks, rank);
        const bool is_contribution = name == std::string("ordered/int8") && i == 3;
        if (is_contribution && own[i].kind == StepKind::kRound) continue;  // all ranks would have other bits alike
        if (own[i].kind == StepKind::kRound) {
          own.erase(own.begin() + static_cast<long>(i));
          ++rounds;
        } else if (own[i].format != RODA_WIRE_NONE) {
          own[i].format = RODA_WIRE_INT4;
          ++messages;
        } else {
          continue;
        }
        EXPECT_NE(verdict(ranks), "right") << name << " rank " << rank << " step " << i;
      }
    }
    EXPECT_GT(rounds, 0) << name;
    EXPECT_GT(messages, 0) << name;
  }
}

TEST(Format, BoundsGrowWithRoundings) {
  EXPECT_NEAR(error_bound(RODA_WIRE_INT8, 1), 0.00394, 1e-12);
  EXPECT_NEAR(error_bound(RODA_WIRE_INT8, 2), 0.0079, 1e-4);
  EXPECT_EQ(error_bound(RODA_WIRE_INT4, 0), 0);
}

TEST(Format, IsShownWithTheStep) {
  Program program;
  ASSERT_EQ(compile(formatted("ordered/int4"), 0, 2, 0, &program), std::nullopt);
  const std::string text = to_text(program);
  EXPECT_TRUE(contains(text, "allreduce/ordered/int4 rank 0 of 2"));
  EXPECT_TRUE(contains(text, "send output[1] to 1 in int4"));
  EXPECT_TRUE(contains(text, "round output[0] in int4"));
}

}  // namespace
}  // namespace roda::schedule
