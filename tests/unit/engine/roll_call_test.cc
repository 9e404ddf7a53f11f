#include "core/engine/roll_call.h"

#include <gtest/gtest.h>

#include <vector>

namespace roda::engine {
namespace {

using Clock = RollCall::Clock;
using std::chrono::seconds;

const Status kCause(RODA_ERR_TIMEOUT, "a message from rank 1 did not move", 1);

// What rank `rank` of four, two on a host, says when those have answered.
std::optional<Status> verdict_of(std::int32_t rank, const std::vector<std::int32_t>& present, seconds later) {
  const std::vector<std::int32_t> ways[] = {{}, {0}, {0}, {2, 0}};
  RollCall call(rank, 4, ways[rank]);
  const auto start = Clock::now();
  EXPECT_TRUE(call.begin(kCause, start));
  for (const std::int32_t other : present) call.answered(other);
  return call.verdict(start + later);
}

TEST(RollCall, NobodyAsksUntilSomethingIsSuspected) {
  RollCall call(0, 2, {});
  call.answered(1);
  EXPECT_FALSE(call.is_under_way());
  EXPECT_FALSE(call.verdict(Clock::now() + seconds(60)).has_value());
}

TEST(RollCall, TheSuspicionStandsAsSoonAsAllHaveAnswered) {
  EXPECT_FALSE(verdict_of(0, {0, 1, 3}, seconds(0)).has_value());
  const auto verdict = verdict_of(0, {0, 3, 1, 2}, seconds(0));
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->message(), kCause.message());
  EXPECT_EQ(verdict->rank(), 1);
}

TEST(RollCall, WhoAnswersTwiceCountsOnce) { EXPECT_FALSE(verdict_of(0, {0, 0, 0, 0, 1, 1}, seconds(0)).has_value()); }

TEST(RollCall, WhoDoesNotAnswerIsNamed) {
  const auto verdict = verdict_of(0, {0, 1, 2}, seconds(60));
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank(), 3);
  EXPECT_EQ(verdict->code(), RODA_ERR_TIMEOUT);
  EXPECT_EQ(verdict->message().find("Rank 3 does not answer"), 0u) << verdict->message();
  EXPECT_NE(verdict->message().find(kCause.message()), std::string::npos);
}

TEST(RollCall, ALeaderIsNamedForThoseWhoAreHeardThroughIt) { EXPECT_EQ(verdict_of(0, {0, 1}, seconds(60))->rank(), 2); }

TEST(RollCall, WhoIsNotHeardItselfNamesTheNextOnItsWay) {
  EXPECT_EQ(verdict_of(2, {}, seconds(60))->rank(), 0);
  EXPECT_EQ(verdict_of(3, {}, seconds(60))->rank(), 2);
}

TEST(RollCall, WhoWasStoppedAndIsNotHeardSaysSoOfItself) {
  RollCall call(2, 4, {0});
  const auto start = Clock::now();
  const auto back = start + seconds(70);
  for (const auto turn : {start, start + seconds(1), back}) call.runs_at(turn);
  EXPECT_TRUE(call.begin(kCause, back));
  EXPECT_FALSE(call.verdict(back + seconds(1)).has_value());
  const auto verdict = call.verdict(back + seconds(3));
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->rank(), 2);
  EXPECT_EQ(verdict->message().find("Rank 2 did not run for 69 s"), 0u) << verdict->message();
}

TEST(RollCall, WhoWasStoppedLongAgoNamesTheNextOnItsWay) {
  RollCall call(2, 4, {0});
  const auto start = Clock::now();
  for (int turn : {0, 70, 71, 72, 73, 74, 75}) call.runs_at(start + seconds(turn));
  EXPECT_TRUE(call.begin(kCause, start + seconds(75)));
  EXPECT_EQ(call.verdict(start + seconds(80))->rank(), 0);
}

TEST(RollCall, WhoIsFartherFromTheLogSpeaksLater) {
  EXPECT_TRUE(verdict_of(2, {}, seconds(3)).has_value());
  EXPECT_FALSE(verdict_of(3, {}, seconds(3)).has_value());
}

TEST(RollCall, TheFirstSuspicionIsKept) {
  RollCall call(0, 1, {});
  const auto now = Clock::now();
  EXPECT_TRUE(call.begin(kCause, now));
  EXPECT_FALSE(call.begin(Status(RODA_ERR_PEER, "what followed from it", 0), now));
  call.answered(0);
  EXPECT_EQ(call.verdict(now)->message(), kCause.message());
}

TEST(RollCall, ADoubtEndsWhenAllAnswerAndComesAgainLater) {
  const auto start = Clock::now();
  RollCall call(1, 2, {0});
  EXPECT_FALSE(call.begin_as_precaution(kCause, start, seconds(4), start + seconds(3)));
  EXPECT_TRUE(call.begin_as_precaution(kCause, start, seconds(4), start + seconds(4)));
  call.answered(1);
  call.answered(0);
  EXPECT_FALSE(call.verdict(start + seconds(60)).has_value());
  EXPECT_FALSE(call.is_under_way());
  EXPECT_FALSE(call.begin_as_precaution(kCause, start, seconds(4), start + seconds(7)));
  EXPECT_TRUE(call.begin_as_precaution(kCause, start, seconds(4), start + seconds(8)));
  EXPECT_EQ(call.verdict(start + seconds(60))->rank(), 0);
}

// Of its own accord it would ask nobody, and the ranks below would name it.
TEST(RollCall, WhoPassesACallOnNamesTheNextWhenNothingComesBack) {
  const auto start = Clock::now();
  RollCall call(2, 4, {0});
  call.pass_on(start);
  EXPECT_TRUE(call.is_under_way());
  EXPECT_FALSE(call.verdict(start + seconds(1)).has_value());
  EXPECT_EQ(call.verdict(start + seconds(3))->rank(), 0);
}

TEST(RollCall, WhoPassesACallOnLeavesTheVerdictToWhoAsked) {
  const auto start = Clock::now();
  RollCall call(2, 4, {0});
  call.pass_on(start);
  for (const std::int32_t rank : {0, 1, 2, 3}) call.answered(rank);
  EXPECT_FALSE(call.verdict(start + seconds(3)).has_value());
  EXPECT_FALSE(call.is_under_way());
}

TEST(RollCall, ASuspicionTakesThePlaceOfADoubt) {
  const auto start = Clock::now();
  RollCall call(1, 2, {0});
  EXPECT_TRUE(call.begin_as_precaution(Status(RODA_ERR_TIMEOUT, "it waits"), start, seconds(4), start + seconds(5)));
  EXPECT_FALSE(call.begin(kCause, start + seconds(5)));  // the ranks were asked already
  call.answered(0);
  call.answered(1);
  EXPECT_EQ(call.verdict(start + seconds(5))->message(), kCause.message());
}

}  // namespace
}  // namespace roda::engine
