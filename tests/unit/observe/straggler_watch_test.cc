#include "core/observe/straggler_watch.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <random>

namespace roda::observe {
namespace {

using std::chrono::microseconds;

// Steps of so many tensors, as a rank that waits sees them.
class Watching : public testing::Test {
 protected:
  static constexpr int kTensors = 7;
  static constexpr std::int64_t kStep = 40'000'000;  // ns, without waits

  struct Late {
    std::int32_t rank;
    std::int64_t ns;
    int tensor = 0;  // with which it is first late
  };
  // The last rank found in so many steps; it says so.
  std::optional<negotiate::Lateness> steps(int count, const std::function<Late(int)>& late_in) {
    std::optional<negotiate::Lateness> named;
    for (int step = 0; step < count; ++step) {
      const Late late = late_in(step);
      for (int tensor = 0; tensor < kTensors; ++tensor) {
        now += microseconds(step_ns / 1000 / kTensors);
        const bool is_last = tensor >= late.tensor;
        // The backward pass goes on while others are late: only the step's end waits for them.
        const std::int64_t waited = tensor == kTensors - 1 ? late.ns : 0;
        if (waited > 0) now += std::chrono::nanoseconds(waited);
        const std::int64_t first = tensor != 0 ? -1 : is_last ? late.ns : 0;
        const auto told =
            watch.complete({static_cast<std::uint64_t>(tensor + 1), is_last ? late.rank : 0, waited, first}, now);
        if (told) {
          ++names;
          named = told;
          if (knows_better && told->of_steps < StragglerWatch::kSteps) continue;
          watch.named(told->rank);
        }
      }
    }
    return named;
  }

  StragglerWatch watch;
  StragglerWatch::Time now = StragglerWatch::Time(std::chrono::seconds(1));
  int names = 0;
  bool knows_better = false;  // a rank that is found early
  std::int64_t step_ns = kStep;
  std::mt19937 random{41};
};

TEST_F(Watching, NamesARankThatIsLateOnceAndWhere) {
  for (const int tensor : {0, 3}) {
    watch = {};
    const auto named = steps(500, [=](int) { return Late{3, kStep / 4, tensor}; });
    ASSERT_TRUE(named);
    EXPECT_EQ(named->rank, 3);
    EXPECT_EQ(named->steps, named->of_steps);
    EXPECT_EQ(named->nanoseconds, kStep / 4);
    EXPECT_NEAR(named->share, 200, 2);
    EXPECT_NEAR(named->before_first, tensor == 0 ? kStep / 4 : 0, StragglerWatch::kSteps) << "but for what is rounded";
  }
  EXPECT_EQ(names, 2) << "once each";
}

TEST_F(Watching, NamesARankAgainWhileItIsLate) {
  const auto steps_of = [](std::int64_t ns) { return static_cast<int>(ns / (kStep + kStep / 4)); };
  EXPECT_TRUE(steps(steps_of(StragglerWatch::kAgain * 9 / 10), [](int) { return Late{3, kStep / 4}; }));
  EXPECT_EQ(names, 1);
  EXPECT_TRUE(steps(steps_of(StragglerWatch::kAgain * 2), [](int) { return Late{3, kStep / 4}; }));
  EXPECT_EQ(names, 3);
}

// Of any lateness, rank and rate: named if, and only if, it is in 4 of 5 steps and costs a tenth of the time.
TEST_F(Watching, NamesWhomItShould) {
  for (int trial = 0; trial < 300; ++trial) {
    watch = {};
    const auto rank = static_cast<std::int32_t>(1 + random() % 8);
    const int percent = static_cast<int>(random() % 40);  // of a step without waits
    const int often = trial % 2 == 0 ? 100 : static_cast<int>(random() % 100);
    const auto named = steps(2 * StragglerWatch::kSteps, [&](int) {
      const bool is_late = static_cast<int>(random() % 100) < often;
      return Late{rank, is_late ? kStep * percent / 100 : 0};
    });
    const bool costs = percent >= 12;  // 10.7 % of the longer step
    if (often == 100) {
      EXPECT_EQ(named.has_value(), costs) << percent;
    }
    if (often < 60) {
      EXPECT_FALSE(named.has_value()) << often;
    }
    if (!named) continue;
    EXPECT_EQ(named->rank, rank);
    EXPECT_GE(named->steps * 5, named->of_steps * 4);
  }
}

// Whenever it begins: there are 20 steps of a second or more, in all but two of which the rank is late.
TEST_F(Watching, NamesARankWithin20LongSteps) {
  step_ns = 60'000'000;
  for (int balanced = 10; balanced < 10 + StragglerWatch::kSteps; ++balanced) {
    watch = {};
    steps(balanced, [](int) { return Late{0, 0}; });
    names = 0;
    const auto named = steps(StragglerWatch::kFewest, [&](int) { return Late{3, step_ns / 8}; });
    ASSERT_TRUE(named) << balanced;
    EXPECT_EQ(named->rank, 3);
    steps(2 * StragglerWatch::kSteps, [&](int) { return Late{3, step_ns / 8}; });
    EXPECT_EQ(names, 1);
  }
}

TEST_F(Watching, FindsARankAgainThatKnewBetterAtFirst) {
  step_ns = 60'000'000;
  knows_better = true;
  const auto named = steps(2 * StragglerWatch::kSteps, [&](int) { return Late{3, step_ns / 8}; });
  ASSERT_TRUE(named);
  EXPECT_EQ(named->of_steps, StragglerWatch::kSteps);
  EXPECT_EQ(names, 2) << "early, and for good";
}

TEST_F(Watching, IsSilentWhereRanksTakeTurns) {
  for (int ranks = 2; ranks <= 8; ++ranks) {
    watch = {};
    steps(2000, [&](int) {
      const auto last = static_cast<std::int32_t>(random() % static_cast<unsigned>(ranks));
      return Late{last, last == 0 ? 0 : static_cast<std::int64_t>(random() % kStep)};  // rank 0 watches
    });
  }
  EXPECT_EQ(names, 0);
}

TEST_F(Watching, NamesARankThatIsThrottled) {
  const auto named = steps(200, [](int step) { return Late{3, step % 3 == 0 ? 3 * kStep : 0}; });
  ASSERT_TRUE(named);
  EXPECT_EQ(named->rank, 3);
  EXPECT_LT(named->steps, StragglerWatch::kMost);
  EXPECT_NEAR(named->share, 500, 20);
  EXPECT_EQ(names, 1) << "though it is late in few steps only";
}

TEST_F(Watching, WaitsForASecondOfShortSteps) {
  int step = 0;
  for (; names == 0 && step < 1000; ++step) {
    now += microseconds(6000);
    if (watch.complete({.tensor = 1, .last = 3, .waited = 3'000'000}, now)) ++names;
  }
  EXPECT_EQ(names, 1);
  EXPECT_NEAR(step * 6, 1200, 300) << "windows of 0.3 s";
}

TEST_F(Watching, DoesNotMindHowLongARankTakesToWakeUp) {
  for (int step = 0; step < 1000; ++step) {
    now += microseconds(200);
    EXPECT_FALSE(watch.complete({.tensor = 1, .last = 3, .waited = 90'000}, now));
  }
}

TEST_F(Watching, OfTwoThatAreLateTheLastIsNamed) {
  const auto named = steps(200, [&](int) { return Late{5, kStep / 2}; });
  ASSERT_TRUE(named);
  EXPECT_EQ(named->rank, 5);
  const auto other = steps(200, [&](int) { return Late{2, kStep / 4}; });
  ASSERT_TRUE(other) << "once that one is well the other is seen";
  EXPECT_EQ(other->rank, 2);
  EXPECT_EQ(names, 2);
}

TEST_F(Watching, NamesARankAgainThatWasBetterMeanwhile) {
  const auto late = [](int) { return Late{3, kStep / 4}; };
  const auto even = [](int) { return Late{0, 0}; };
  steps(300, late);
  EXPECT_EQ(names, 1);
  steps(100, even);
  EXPECT_EQ(names, 1);
  steps(300, late);
  EXPECT_EQ(names, 2);
}

TEST_F(Watching, FindsStepsAfterTensorsThatComeOnce) {
  for (std::uint64_t once = 1000; once < 1300; ++once) EXPECT_FALSE(watch.complete({once, 1, kStep}, now));
  EXPECT_TRUE(steps(200, [](int) { return Late{3, kStep / 4}; }));
  for (std::uint64_t once = 2000; once < 102'000; ++once)
    EXPECT_FALSE(watch.complete({once, 1, kStep}, now)) << "no step";
}

}  // namespace
}  // namespace roda::observe
