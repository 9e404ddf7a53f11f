#include "tools/perf/statistics.h"

#include <gtest/gtest.h>

namespace roda::perf {
namespace {

TEST(Statistics, OddAndEvenMedians) {
  EXPECT_DOUBLE_EQ(summarise({3, 1, 2}).median, 2);
  EXPECT_DOUBLE_EQ(summarise({4, 1, 2, 3}).median, 2.5);
}

TEST(Statistics, TheRest) {
  std::vector<double> times;
  for (int i = 100; i > 0; --i) times.push_back(i);
  const Statistics result = summarise(times);
  EXPECT_DOUBLE_EQ(result.min, 1);
  EXPECT_DOUBLE_EQ(result.mean, 50.5);
  EXPECT_DOUBLE_EQ(result.p95, 96);
  EXPECT_EQ(result.samples, 100);
}

TEST(Statistics, NothingIsZero) { EXPECT_EQ(summarise({}).samples, 0); }

TEST(Statistics, RepeatsFollowTheSizeUnlessGiven) {
  EXPECT_GT(repeats_for(4, -1, -1).timed, repeats_for(64u << 20, -1, -1).timed);
  EXPECT_EQ(repeats_for(4, 0, 7).warmup, 0);
  EXPECT_EQ(repeats_for(4, 0, 7).timed, 7);
}

}  // namespace
}  // namespace roda::perf
