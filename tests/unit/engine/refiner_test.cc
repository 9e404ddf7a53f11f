// The refiner on launches that never were: times are drawn, the log is a loop.
#include "core/engine/refiner.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

namespace roda::engine {
namespace {

using negotiate::Change;
using negotiate::Refinement;

const negotiate::LaunchClass kClass{RODA_ALLREDUCE, RODA_FLOAT32, RODA_SUM, 17};
const std::vector<Refiner::Candidate> kThree{{"far/ring", 1e-3}, {"far/doubling", 2e-3}, {"far/halving", 2.5e-3}};

// One class of one set, with a log that every proposal gets into at once.
class Loop {
 public:
  using Seconds = std::function<std::optional<double>(const std::string& option)>;
  explicit Loop(std::vector<Refiner::Candidate> candidates, Seconds seconds)
      : candidates_(std::move(candidates)), seconds_(std::move(seconds)) {}

  void launch(int times) {
    for (int i = 0; i < times; ++i) one();
  }
  // Until the log carries another change, at most so many launches.
  bool launch_until_change(int most) {
    const std::size_t before = changes.size();
    for (int i = 0; i < most && changes.size() == before; ++i) one();
    return changes.size() != before;
  }
  std::string now() {
    const negotiate::Choice choice = choices_.take(0, kClass);
    return choice.option == nullptr ? candidates_.front().option : *choice.option;
  }
  int tries() const {
    int count = 0;
    for (const Refinement& r : changes) count += r.change == Change::kTry ? 1 : 0;
    return count;
  }
  bool kept(const std::string& option) const {
    for (const Refinement& r : changes) {
      if (r.change == Change::kKeep && r.option == option) return true;
    }
    return false;
  }

  std::vector<Refinement> changes;
  std::map<std::string, int> ran;
  int asked = 0;

 private:
  void one() {
    const negotiate::Choice choice = choices_.take(0, kClass);
    const std::string& option = choice.option == nullptr ? candidates_.front().option : *choice.option;
    ++ran[option];
    const auto proposal = refiner_.ended(0, kClass, choice, seconds_(option), [this] {
      ++asked;
      return candidates_;
    });
    if (!proposal) return;
    const std::uint64_t number = choices_.apply(*proposal);
    ASSERT_NE(number, 0u);
    refiner_.applied(number, *proposal);
    changes.push_back(*proposal);
  }

  std::vector<Refiner::Candidate> candidates_;
  Seconds seconds_;
  Refiner refiner_;
  negotiate::Choices choices_;
};

Loop::Seconds fixed(std::map<std::string, double> seconds) {
  return [seconds](const std::string& option) { return seconds.at(option); };
}

TEST(Refiner, KeepsWhatIsClearlyQuicker) {
  Loop loop(kThree, fixed({{"far/ring", 6e-3}, {"far/doubling", 2e-3}, {"far/halving", 4e-3}}));
  loop.launch(31);
  EXPECT_TRUE(loop.changes.empty());
  loop.launch(60);
  ASSERT_EQ(loop.changes.size(), 2u);
  EXPECT_EQ(loop.changes[0].change, Change::kTry);
  EXPECT_EQ(loop.changes[0].option, "far/doubling");
  EXPECT_EQ(loop.changes[0].present, "far/ring");
  EXPECT_EQ(loop.changes[0].present_seconds, 6e-3);
  EXPECT_EQ(loop.changes[1].change, Change::kKeep);
  EXPECT_EQ(loop.changes[1].option_seconds, 2e-3);
  EXPECT_EQ(loop.changes[1].present_seconds, 6e-3);
  EXPECT_EQ(loop.now(), "far/doubling");
  loop.launch(100000);
  EXPECT_EQ(loop.now(), "far/doubling");
  EXPECT_EQ(loop.asked, 1);
}

TEST(Refiner, FindsTheBestOfSeveral) {
  Loop loop(kThree, fixed({{"far/ring", 6e-3}, {"far/doubling", 4e-3}, {"far/halving", 2e-3}}));
  loop.launch(100000);
  EXPECT_TRUE(loop.kept("far/doubling"));
  EXPECT_EQ(loop.now(), "far/halving");
}

TEST(Refiner, GoesBackToWhatIsAsQuick) {
  Loop loop(kThree, fixed({{"far/ring", 2e-3}, {"far/doubling", 1.7e-3}, {"far/halving", 2.2e-3}}));
  loop.launch(100000);
  EXPECT_EQ(loop.now(), "far/ring");
  for (const Refinement& r : loop.changes) EXPECT_NE(r.change, Change::kKeep);
}

// What is far slower costs a few launches, once.
TEST(Refiner, EndsAHopelessTryEarlyAndForGood) {
  Loop loop({{"far/ring", 1e-3}, {"far/doubling", 2e-3}}, fixed({{"far/ring", 1e-3}, {"far/doubling", 50e-3}}));
  loop.launch(100000);
  EXPECT_EQ(loop.tries(), 1);
  EXPECT_EQ(loop.now(), "far/ring");
  EXPECT_LE(loop.ran["far/doubling"], 7);
}

TEST(Refiner, TriesAFewTimesAndEverMoreSeldom) {
  Loop loop({{"a/1", 1e-3}, {"a/2", 1e-3}, {"a/3", 1e-3}, {"a/4", 1e-3}, {"a/5", 1e-3}, {"a/6", 1e-3}, {"a/7", 1e-3}},
            [](const std::string&) { return 1e-3; });
  int patience = 32;
  for (int number = 0; number < 8; ++number, patience *= 2) {
    const int before = loop.ran["a/1"];
    ASSERT_TRUE(loop.launch_until_change(100000)) << number;
    EXPECT_EQ(loop.ran["a/1"] - before, patience);
    ASSERT_TRUE(loop.launch_until_change(40)) << number;
  }
  EXPECT_FALSE(loop.launch_until_change(200000));
  EXPECT_EQ(loop.tries(), 8);
  int others = 0;
  for (const auto& [option, launches] : loop.ran) others += option == "a/1" ? 0 : launches;
  EXPECT_LE(others, 8 * 20);
}

// The two sides differ in nothing but noise with a long tail, whatever the seed: 200 jobs of 4 tries.
TEST(Refiner, NoiseAloneChangesNearlyNothing) {
  int keeps = 0, tries = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    std::lognormal_distribution<double> noise(0, 1);
    Loop loop(kThree, [&](const std::string&) { return 1e-3 + 1e-3 * noise(random); });
    loop.launch(3000);
    tries += loop.tries();
    for (const Refinement& r : loop.changes) keeps += r.change == Change::kKeep ? 1 : 0;
  }
  EXPECT_GE(tries, 800);
  EXPECT_LE(keeps, 8);  // 1.4 are to be expected
}

TEST(Refiner, SeesThroughNoiseWhatIsTwiceAsQuick) {
  int kept = 0;
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> noise(0, 0.05);
    Loop loop(kThree, [&](const std::string& option) {
      const bool is_disturbed = random() % 25 == 0;
      return (option == "far/doubling" ? 1e-3 : 2e-3) * (1 + noise(random)) + (is_disturbed ? 20e-3 : 0);
    });
    loop.launch(5000);
    kept += loop.now() == "far/doubling" ? 1 : 0;
  }
  EXPECT_GE(kept, 45);
}

// Large and small tensors of one class in turn, by twos, fours and eights, fall on both sides of a try alike.
TEST(Refiner, IsNotMisledByPatternsOfTheApplication) {
  for (const int period : {2, 4, 8}) {
    int launches = 0;
    Loop loop(kThree, [&](const std::string&) { return launches++ % period < period / 2 ? 1e-3 : 1.9e-3; });
    loop.launch(20000);
    EXPECT_EQ(loop.now(), "far/ring") << period;
    EXPECT_GT(loop.tries(), 0) << period;
  }
}

TEST(Refiner, LaunchesBesideOthersDoNotCount) {
  Loop never(kThree, [](const std::string&) { return std::nullopt; });
  never.launch(10000);
  EXPECT_TRUE(never.changes.empty());
  // One in five is alone: a try runs out before it has seen enough, and changes nothing.
  int launches = 0;
  Loop seldom(kThree, [&](const std::string& option) -> std::optional<double> {
    if (++launches % 5 != 0) return std::nullopt;
    return option == "far/ring" ? 6e-3 : 1e-3;
  });
  seldom.launch(2000);
  EXPECT_GT(seldom.tries(), 0);
  EXPECT_EQ(seldom.now(), "far/ring");
  for (const Refinement& r : seldom.changes) EXPECT_NE(r.change, Change::kKeep);
}

TEST(Refiner, TriesNothingThatIsPredictedToCostMuchOrNotAtAll) {
  Loop loop({{"far/ring", 1e-3}, {"far/dear", 3.1e-3}, {"far/native", std::nullopt}},
            [](const std::string&) { return 1e-3; });
  loop.launch(10000);
  EXPECT_TRUE(loop.changes.empty());
  EXPECT_EQ(loop.asked, 1);
}

TEST(Refiner, HasNothingToDoWhereOneOptionIsAllThereIs) {
  for (const std::vector<Refiner::Candidate>& few :
       {std::vector<Refiner::Candidate>{}, std::vector<Refiner::Candidate>{{"far/ring", 1e-3}}}) {
    Refiner refiner;
    int asked = 0;
    for (int i = 0; i < 1000; ++i) {
      EXPECT_FALSE(refiner.ended(0, kClass, {}, 1e-3, [&] {
        ++asked;
        return few;
      }));
    }
    EXPECT_EQ(asked, 1);
  }
}

// A process set goes, and another one gets its number: what was on its way for the first is judged by nobody.
TEST(Refiner, OverlooksATryThatItDidNotAskFor) {
  Refiner refiner;
  const auto ask = [] { return kThree; };
  static_cast<void>(refiner.ended(3, kClass, {}, 1e-3, ask));
  Refinement stray;
  stray.set = 3;
  stray.of = kClass;
  stray.option = "far/halving";
  stray.launches = 4;
  refiner.applied(9, stray);
  const std::string option = stray.option;
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_FALSE(refiner.ended(3, kClass, {&option, 9, i, true}, 1e-4, ask));
  std::optional<Refinement> proposal;
  for (int i = 0; i < 32 && !proposal; ++i) proposal = refiner.ended(3, kClass, {}, 1e-3, ask);
  ASSERT_TRUE(proposal);
  EXPECT_EQ(proposal->after, 9u);
  EXPECT_EQ(proposal->option, "far/doubling");
  refiner.forget_set(3);
  for (int i = 0; i < 31; ++i) EXPECT_FALSE(refiner.ended(3, kClass, {}, 1e-3, ask));
}

}  // namespace
}  // namespace roda::engine
