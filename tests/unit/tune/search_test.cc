// Searches among made-up machines: what is found beside the best of a grid of all settings.
#include "core/tune/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <set>
#include <vector>

namespace roda::tune {
namespace {

using Machine = std::function<double(const Tuning&)>;  // its score

const Tuning kStart{128u << 20, 0, 2, ""};

Choice outstanding() {
  return {{[](Tuning* t) { t->outstanding = 1; }, [](Tuning* t) { t->outstanding = 4; }}};
}

double octaves(const Tuning& t) { return std::log2(static_cast<double>(t.threshold)); }

// A hill over the threshold, and waiting costs.
double hill(const Tuning& t) {
  const double from_best = octaves(t) - 21;
  return (3000 - 60 * from_best * from_best) / (1 + t.hold_us / 5000.0) * (t.outstanding == 4 ? 1.2 : 1);
}

// It pays to wait for 2 ms, and more than that costs.
double waits(const Tuning& t) {
  const double ms = t.hold_us / 1000.0;
  return (1000 + 100 * (octaves(t) - 16)) * (ms < 2 ? 0.6 + ms / 5 : 1 / (1 + (ms - 2) / 10));
}

// What is smallest is best; nothing else counts.
double small(const Tuning& t) { return 1000 - 20 * (octaves(t) - 16); }

double best_of_grid(const Machine& machine) {
  double best = 0;
  for (int step = 0; step <= 22; ++step) {
    for (std::uint32_t us = 0; us <= 10'000; us += 500) {
      for (const std::uint32_t buckets : {1u, 2u, 4u}) {
        best = std::max(best, machine({static_cast<std::uint64_t>(65536 * std::exp2(step / 2.0)), us, buckets, ""}));
      }
    }
  }
  return best;
}

int run(Search* search, const Machine& machine) {
  int measurements = 0;
  for (; !search->is_over(); ++measurements) search->scored(machine(search->trial()));
  return measurements;
}

SearchOptions options() {
  SearchOptions o;
  o.choices = {outstanding()};
  return o;
}

TEST(Search, ComesNearTheBestOfAllSettingsInATenthOfTheMeasurements) {
  for (const Machine& machine : {Machine(hill), Machine(waits), Machine(small)}) {
    Search search(kStart, options());
    EXPECT_EQ(run(&search, machine), 27);  // a grid has 1449
    EXPECT_GE(machine(search.trial()), 0.95 * best_of_grid(machine))
        << search.trial().threshold << " " << search.trial().hold_us << " " << search.trial().outstanding;
  }
}

// Five of a hundred off, as medians on a machine with other work.
TEST(Search, ComesNearTheBestThroughNoise) {
  std::minstd_rand random(7);
  std::normal_distribution<double> noise(1, 0.05);
  int near = 0;
  for (int i = 0; i < 30; ++i) {
    const Machine machine = i % 3 == 0 ? Machine(hill) : i % 3 == 1 ? Machine(waits) : Machine(small);
    Search search(kStart, options());
    run(&search, [&](const Tuning& t) { return machine(t) * noise(random); });
    if (machine(search.trial()) >= 0.9 * best_of_grid(machine)) ++near;
  }
  EXPECT_GE(near, 27);
}

// What is in force at the start is measured first, and stays where nothing is better.
TEST(Search, KeepsWhatNothingBeats) {
  Search search(kStart, options());
  EXPECT_EQ(search.trial(), kStart);
  const auto starts_best = [](const Tuning& t) {
    return 100 + octaves(t) - t.hold_us / 1000.0 + (t.outstanding == 2 ? 50 : 0);
  };
  run(&search, starts_best);
  EXPECT_EQ(search.trial().outstanding, 2u);
  EXPECT_GE(starts_best(search.trial()), 0.99 * starts_best(kStart));
}

// The machine is slow for everybody while the first ones are measured: the start gets another chance.
TEST(Search, ComparesWithTheStartInTheSameMinutes) {
  SearchOptions one = options();
  one.choices.clear();
  Search search(kStart, one);
  int measured = 0;
  run(&search, [&](const Tuning& t) { return (++measured <= 5 ? 0.3 : 1) * (octaves(t) - t.hold_us / 1000.0); });
  EXPECT_GE(octaves(search.trial()), 25);
}

TEST(Search, LeavesAloneWhatIsFixed) {
  SearchOptions fixed = options();
  fixed.hold = false;
  Search one(kStart, fixed);
  std::set<std::uint64_t> thresholds;
  while (!one.is_over()) {
    EXPECT_EQ(one.trial().hold_us, 0u);
    thresholds.insert(one.trial().threshold);
    one.scored(waits(one.trial()));
  }
  EXPECT_GT(thresholds.size(), 5u);
  fixed.threshold = false;
  Search choices(kStart, fixed);
  EXPECT_EQ(run(&choices, hill), 3);  // none is measured for what can't change
  EXPECT_EQ(choices.trial(), (Tuning{kStart.threshold, 0, 4, ""}));
  fixed.choices.clear();
  EXPECT_TRUE(Search(kStart, fixed).is_over());
}

// Of three sizes, of which buckets of the one in the middle are few and small.
TEST(Search, ChoosesWhatRunsOftenOrMovesMuch) {
  SearchOptions options;
  options.threshold = options.hold = false;
  const auto rule = [](const char* text) { return [text](Tuning* t) { t->select += text; }; };
  options.choices = {{{rule("a"), rule("b")}, 0, 100}, {{rule("c")}, 100, 1000}, {{rule("d")}, 1000, SIZE_MAX}};
  Search search(kStart, options);
  std::vector<std::string> tried;
  while (!search.is_over()) {
    tried.push_back(search.trial().select);
    for (int i = 0; i < 50; ++i) search.saw(10);
    for (int i = 0; i < 3; ++i) search.saw(500);
    search.saw(1 << 20);
    search.scored(search.trial().select == "b" ? 2 : search.trial().select == "bd" ? 3 : 1);
  }
  EXPECT_EQ(tried, (std::vector<std::string>{"", "a", "b", "b", "bd"}));
  EXPECT_EQ(search.trial().select, "bd");
  EXPECT_EQ(search.best_score(), 3);
}

TEST(GaussianProcess, GoesThroughWhatWasMeasuredAndIsUnsureElsewhere) {
  const std::vector<Point> points{{0.0}, {0.2}, {0.4}, {0.6}};
  std::vector<double> values;
  for (const Point& p : points) values.push_back(100 + 10 * std::sin(4 * p.front()));
  const GaussianProcess process(points, values, 0.05);
  for (std::size_t i = 0; i < points.size(); ++i) EXPECT_NEAR(process.at(points[i]).mean, values[i], 0.3);
  EXPECT_NEAR(process.at({0.3}).mean, 100 + 10 * std::sin(1.2), 1);
  EXPECT_GT(process.at({1.0}).deviation, 4 * process.at({0.3}).deviation);
}

TEST(GaussianProcess, TakesEqualValuesAndPoints) {
  const GaussianProcess process({{0.5, 0.5}, {0.5, 0.5}, {0.5, 0.5}}, {7, 7, 7}, 0);
  EXPECT_NEAR(process.at({0.5, 0.5}).mean, 7, 1e-9);
  EXPECT_NEAR(process.at({0, 1}).mean, 7, 1e-9);
}

}  // namespace
}  // namespace roda::tune
