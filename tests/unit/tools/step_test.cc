// Training steps: what overlaps, what waits, what goes together.
#include "tools/sim/step.h"

#include <gtest/gtest.h>

namespace roda::simtool {
namespace {

// 3 s of which 2 are the backward pass: four gradients, ready at 1.5, 2, 2.5 and 3.
const std::vector<double> kFour = {10, 20, 30, 40};

TEST(Step, AloneItIsTheComputation) {
  const Step step = step_of(kFour, 3, 0, 1000, [](double) { return 0; });
  EXPECT_DOUBLE_EQ(step.seconds, 3);
  EXPECT_EQ(step.buckets, 4);
}

TEST(Step, OnlyTheLastBucketIsWaitedFor) {
  const Step step = step_of(kFour, 3, 0.1, 1000, [](double) { return 0.25; });
  EXPECT_DOUBLE_EQ(step.seconds, 3.35);
  EXPECT_EQ(step.buckets, 4);
}

TEST(Step, WhatBecomesReadyMeanwhileGoesAsOne) {
  std::vector<double> buckets;
  const auto travel = [&](double bytes) {
    buckets.push_back(bytes);
    return 1.1;
  };
  EXPECT_DOUBLE_EQ(step_of(kFour, 3, 0, 1000, travel).seconds, 1.5 + 3 * 1.1);
  EXPECT_EQ(buckets, (std::vector<double>{10, 50, 40}));
  buckets.clear();
  EXPECT_DOUBLE_EQ(step_of(kFour, 3, 0, 45, travel).seconds, 1.5 + 4 * 1.1);  // 20 and 30 don't fit into one
  EXPECT_EQ(buckets, (std::vector<double>{10, 20, 30, 40}));
}

}  // namespace
}  // namespace roda::simtool
