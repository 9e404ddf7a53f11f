#include "core/observe/stall_watch.h"

#include <gtest/gtest.h>

namespace roda::observe {
namespace {

using std::chrono::seconds;
using Waiting = StallWatch::Waiting;

TEST(StallWatch, ReportsWhatWaitsForLongAndWhoIsMissing) {
  StallWatch watch(seconds(60), seconds(0));
  const StallWatch::Clock::time_point start{};
  const std::vector<Waiting> waiting{{0, "a", {1, 3}}, {0, "b", {3}}};
  EXPECT_FALSE(watch.look(waiting, start).has_value());
  EXPECT_FALSE(watch.look(waiting, start + seconds(59)).has_value());
  const auto report = watch.look(waiting, start + seconds(60));
  ASSERT_TRUE(report.has_value());
  EXPECT_FALSE(report->shut_down);
  EXPECT_NE(report->text.find("then the job waits for ever"), std::string::npos) << report->text;
  EXPECT_EQ(report->text.find("One or more tensors were submitted to be reduced, gathered or broadcasted"), 0u);
  EXPECT_NE(report->text.find("\n1: [a]\n3: [a, b]"), std::string::npos) << report->text;
  EXPECT_FALSE(watch.look(waiting, start + seconds(61)).has_value()) << "not again at once";
  EXPECT_TRUE(watch.look(waiting, start + seconds(120)).has_value());
}

TEST(StallWatch, ATensorThatWentAndCameBackStartsAnew) {
  StallWatch watch(seconds(10), seconds(0));
  const StallWatch::Clock::time_point start{};
  const std::vector<Waiting> waiting{{0, "a", {1}}};
  EXPECT_FALSE(watch.look(waiting, start).has_value());
  EXPECT_FALSE(watch.look({}, start + seconds(5)).has_value());
  EXPECT_FALSE(watch.look(waiting, start + seconds(11)).has_value());
}

TEST(StallWatch, EndsTheJobWhenAskedTo) {
  StallWatch watch(seconds(10), seconds(20));
  const StallWatch::Clock::time_point start{};
  const std::vector<Waiting> waiting{{0, "a", {1}}};
  static_cast<void>(watch.look(waiting, start));
  const auto warning = watch.look(waiting, start + seconds(10));
  EXPECT_FALSE(warning->shut_down);
  EXPECT_NE(warning->text.find("then the job ends after 20 seconds"), std::string::npos) << warning->text;
  const auto report = watch.look(waiting, start + seconds(20));
  ASSERT_TRUE(report.has_value());
  EXPECT_TRUE(report->shut_down);
  EXPECT_NE(report->text.find("1!: [a]"), std::string::npos);
}

// Of two stalls the one whose time is over says whom the job blames, and a tensor that no rank is known to miss is
// told.
TEST(StallWatch, BlamesARankThatIsMissedForTooLong) {
  StallWatch watch(seconds(10), seconds(20));
  const StallWatch::Clock::time_point start{};
  const Waiting held{0, "held", {}}, old{0, "old", {2}};
  static_cast<void>(watch.look({held, old}, start));
  const auto report = watch.look({{0, "new", {1}}, held, old}, start + seconds(20));
  ASSERT_TRUE(report.has_value());
  EXPECT_TRUE(report->shut_down);
  EXPECT_EQ(report->culprit, 2);
  EXPECT_NE(report->text.find("\nnot known: [held]\n2!: [old]"), std::string::npos) << report->text;
  static_cast<void>(watch.look({held}, start + seconds(20)));
  const auto nobody = watch.look({held}, start + seconds(40));
  ASSERT_TRUE(nobody.has_value());
  EXPECT_TRUE(nobody->shut_down);
  EXPECT_EQ(nobody->culprit, -1);
}

TEST(StallWatch, ManyNamesAreCut) {
  StallWatch watch(seconds(1), seconds(0));
  const StallWatch::Clock::time_point start{};
  std::vector<Waiting> waiting;
  for (int i = 0; i < 9; ++i) waiting.push_back({0, "t" + std::to_string(i), {0}});
  static_cast<void>(watch.look(waiting, start));
  EXPECT_NE(watch.look(waiting, start + seconds(2))->text.find("t5 ...]"), std::string::npos);
}

}  // namespace
}  // namespace roda::observe
