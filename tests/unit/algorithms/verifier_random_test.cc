// The verifier against chance: what it calls right comes out right in every random run; garbage never harms it.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/schedule/schedule.h"
#include "algorithms/schedule/verifier.h"
#include "tests/unit/algorithms/random_run.h"
#include "tests/unit/algorithms/schedules.h"

namespace roda::schedule {
namespace {

constexpr int kRuns = 8;

class Chance : public testing::TestWithParam<const Algorithm*> {
 protected:
  std::size_t below(std::size_t limit) { return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_); }

  bool always_right(const std::vector<Schedule>& ranks) {
    for (int i = 0; i < kRuns; ++i) {
      if (!RandomRun(ranks, random_).run()) return false;
    }
    return true;
  }

  // Swaps, drops, doubles or misdirects some step of some rank.
  void damage(std::vector<Schedule>& ranks) {
    Schedule& schedule = ranks[below(ranks.size())];
    std::vector<Step>& steps = schedule.lanes[below(schedule.lanes.size())].steps;
    if (steps.empty()) return;
    const std::size_t index = below(steps.size());
    const auto place = steps.begin() + static_cast<std::ptrdiff_t>(index);
    Step& step = steps[index];
    switch (below(7)) {
      case 0:
      case 1:
        if (index + 1 < steps.size()) std::swap(step, steps[index + 1]);
        break;
      case 2:
        std::swap(step, steps[below(steps.size())]);
        break;
      case 3:
        steps.erase(place);
        break;
      case 4:
        steps.insert(place, Step(step));
        break;
      case 5:
        step.peer = static_cast<std::int32_t>(below(ranks.size()));
        break;
      default:
        std::swap(step.dst, step.src);
    }
  }

  std::mt19937 random_{12345};
};

TEST_P(Chance, RightSchedulesAlwaysComeOutRight) {
  for (int size = 1; size <= 9; ++size) {
    EXPECT_TRUE(always_right(schedules_of(GetParam()->collective, GetParam()->name, size, size / 2))) << size;
  }
}

TEST_P(Chance, WhatPassesTheVerifierIsRight) {
  int refused = 0;
  for (int i = 0; i < 600; ++i) {
    auto ranks = schedules_of(GetParam()->collective, GetParam()->name, static_cast<int>(2 + below(4)));
    for (std::size_t n = 1 + below(3); n > 0; --n) damage(ranks);
    if (verify(ranks)) {
      ++refused;
      continue;
    }
    std::string text;
    for (const Program& program : compile(ranks, needs_of(ranks)).ranks) text += to_text(program);
    ASSERT_TRUE(always_right(ranks)) << text;
  }
  EXPECT_GT(refused, 300);
  EXPECT_LT(refused, 600);
}

std::vector<const Algorithm*> all_but_adasum() {
  std::vector<const Algorithm*> all = algorithms();
  std::erase_if(all, [](const Algorithm* algorithm) { return algorithm->collective == Collective::kAdasum; });
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Chance, testing::ValuesIn(all_but_adasum()), [](const auto& info) {
  return std::string(collective_name(info.param->collective)) + "_" + info.param->name;
});

// The random runs are able to tell: a handshake that is missing shows.
TEST(RandomRun, FindsWhatIsBroken) {
  std::mt19937 random(1);
  auto ranks = schedules_of(Collective::kAllgather, "direct", 3);
  for (int rank = 0; rank < 3; ++rank) steps_of(ranks, rank).resize(steps_of(ranks, rank).size() - 2);
  int wrong = 0;
  for (int i = 0; i < 100; ++i) wrong += RandomRun(ranks, random).run() ? 0 : 1;
  EXPECT_GT(wrong, 10);
}

TEST(VerifierGarbage, IsRefusedWithoutHarm) {
  std::mt19937 random(7);
  const auto draw = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  const auto number = [&] { return draw(0, 9) == 0 ? draw(INT32_MIN, INT32_MAX) : draw(-1, 3); };
  int passed = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<Schedule> ranks(static_cast<std::size_t>(draw(1, 3)));
    const auto collective = static_cast<Collective>(draw(0, 7));
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      Schedule& s = ranks[rank];
      s = begin("garbage", collective, static_cast<int>(rank), static_cast<int>(ranks.size()), 2, draw(0, 2));
      s.scratch_chunks = 2;
      for (Lane& lane : s.lanes) {
        for (int n = draw(0, 3); n > 0; --n) {
          lane.steps.push_back({static_cast<StepKind>(draw(0, 10)),
                                number(),
                                {static_cast<Space>(draw(0, 3)), number(), number()},
                                {static_cast<Space>(draw(0, 3)), number(), number()},
                                number()});
        }
      }
    }
    passed += verify(ranks) ? 0 : 1;
  }
  EXPECT_LT(passed, 4000);  // empty ones of barriers and of one rank
}

}  // namespace
}  // namespace roda::schedule
