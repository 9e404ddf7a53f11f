#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/engine/baton.h"

namespace roda::engine {
namespace {

class BellsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(Bells::open(&bells_).ok());
    ASSERT_TRUE(bells_.watch(bell_.get()).ok());
  }
  void ring() {
    const std::uint64_t one = 1;
    ASSERT_EQ(write(bell_.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  }

  Bells bells_;
  UniqueFd bell_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

// A transport's bell is read when that transport is armed, and it is not while nothing moves there.
TEST_F(BellsTest, WhatNobodyReadsWakesOnce) {
  ring();
  EXPECT_TRUE(bells_.sleep_as_holder(0));
  EXPECT_TRUE(bells_.sleep_as_engine(0));
  EXPECT_FALSE(bells_.sleep_as_holder(0));
  EXPECT_FALSE(bells_.sleep_as_engine(0));
}

TEST_F(BellsTest, EachRingWakes) {
  for (int i = 0; i < 3; ++i) {
    ring();
    EXPECT_TRUE(bells_.sleep_as_holder(0));
    EXPECT_TRUE(bells_.sleep_as_engine(0));
  }
}

TEST_F(BellsTest, ARingBeforeTheSleepIsNotMissed) {
  ring();
  EXPECT_TRUE(bells_.sleep_as_engine(0));
  EXPECT_TRUE(bells_.sleep_as_holder(0)) << "each sees what wakes it";
}

TEST_F(BellsTest, EachIsWokenByItsOwnCall) {
  bells_.wake_engine();
  EXPECT_FALSE(bells_.sleep_as_holder(0));
  EXPECT_TRUE(bells_.sleep_as_engine(0));
  bells_.wake_holder();
  EXPECT_FALSE(bells_.sleep_as_engine(0));
  EXPECT_TRUE(bells_.sleep_as_holder(0));
  EXPECT_FALSE(bells_.sleep_as_holder(0));
}

}  // namespace
}  // namespace roda::engine
