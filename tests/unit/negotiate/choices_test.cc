#include "core/negotiate/choices.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace roda::negotiate {
namespace {

const LaunchClass kClass{RODA_ALLREDUCE, RODA_FLOAT32, RODA_SUM, 10};

Refinement change(Change what, const std::string& option, std::uint64_t after, std::uint32_t launches = 0) {
  Refinement r;
  r.change = what;
  r.of = kClass;
  r.option = option;
  r.after = after;
  r.launches = launches;
  return r;
}

std::string next(Choices* choices, std::int32_t set = 0, const LaunchClass& of = kClass) {
  const Choice choice = choices->take(set, of);
  return choice.option == nullptr ? "-" : *choice.option;
}

TEST(Choices, ATryRunsOutByItself) {
  Choices choices;
  EXPECT_TRUE(choices.empty());
  EXPECT_EQ(choices.apply(change(Change::kTry, "b", 0, 6)), 1u);
  std::vector<std::string> ran;
  for (int i = 0; i < 8; ++i) ran.push_back(next(&choices));
  EXPECT_EQ(ran, (std::vector<std::string>{"-", "b", "b", "-", "b", "-", "-", "-"}));
}

TEST(Choices, EachLaunchKnowsItsPlaceInTheTry) {
  Choices choices;
  choices.apply(change(Change::kTry, "b", 0, 2));
  const Choice first = choices.take(0, kClass), second = choices.take(0, kClass), third = choices.take(0, kClass);
  EXPECT_EQ(first.attempt, 1u);
  EXPECT_FALSE(first.is_tried);
  EXPECT_EQ(second.index, 1u);
  EXPECT_TRUE(second.is_tried);
  EXPECT_EQ(third.attempt, 0u);
}

TEST(Choices, WhatIsKeptRunsOn) {
  Choices choices;
  choices.apply(change(Change::kTry, "b", 0, 100));
  EXPECT_EQ(choices.apply(change(Change::kKeep, "b", 1)), 2u);
  EXPECT_EQ(next(&choices), "b");
  EXPECT_EQ(choices.apply(change(Change::kTry, "c", 2, 100)), 3u);
  EXPECT_EQ(next(&choices), "b");
  EXPECT_EQ(next(&choices), "c");
  EXPECT_EQ(choices.apply(change(Change::kGoBack, "c", 3)), 4u);
  EXPECT_EQ(next(&choices), "b");
}

TEST(Choices, ConcernOneClassOfOneSet) {
  Choices choices;
  choices.apply(change(Change::kTry, "b", 0, 100));
  choices.apply(change(Change::kKeep, "b", 1));
  LaunchClass other = kClass;
  other.magnitude = 11;
  EXPECT_EQ(next(&choices, 0, other), "-");
  EXPECT_EQ(next(&choices, 1), "-");
  choices.forget_set(1);
  EXPECT_EQ(next(&choices), "b");
  choices.forget_set(0);
  EXPECT_TRUE(choices.empty());
}

TEST(Choices, StaleChangesChangeNothing) {
  Choices choices;
  EXPECT_EQ(choices.apply(change(Change::kKeep, "b", 0)), 0u);  // nothing is tried
  EXPECT_EQ(choices.apply(change(Change::kKeep, "b", 7)), 0u);  // of a set that had this number before
  EXPECT_TRUE(choices.empty());
  choices.apply(change(Change::kTry, "b", 0, 100));
  EXPECT_EQ(choices.apply(change(Change::kKeep, "c", 1)), 0u);  // not what is tried
  EXPECT_EQ(choices.apply(change(Change::kTry, "c", 0, 4)), 0u);
  EXPECT_EQ(choices.apply(change(Change::kGoBack, "b", 1)), 2u);
  EXPECT_EQ(choices.apply(change(Change::kGoBack, "b", 2)), 0u);
  EXPECT_EQ(next(&choices), "-");
}

// A launch that was decided runs what it was given, whatever becomes of its set.
TEST(Choices, OptionsOutliveTheirSets) {
  Choices choices;
  choices.apply(change(Change::kTry, "an option of some length/ring", 0, 4));
  choices.take(0, kClass);
  const Choice choice = choices.take(0, kClass);
  choices.forget_set(0);
  EXPECT_EQ(*choice.option, "an option of some length/ring");
}

TEST(LaunchClass, SizesGoByPowersOfTwo) {
  const auto of = [](std::size_t bytes) { return LaunchClass{0, 0, 0, magnitude_of(bytes)}; };
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{65535}, std::size_t{65536}, SIZE_MAX}) {
    EXPECT_LE(of(bytes).from(), bytes);
    EXPECT_GE(of(bytes).to(), bytes);
  }
  EXPECT_EQ(of(65536), of(131071));
  EXPECT_NE(of(65535), of(65536));
}

}  // namespace
}  // namespace roda::negotiate
