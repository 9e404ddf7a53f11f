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

TEST_F(BellsTest, TheEnginesThreadIsCalledOnceUntilItHears) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(bells_.is_engine_called());
    bells_.wake_engine();
    bells_.wake_engine();
    EXPECT_TRUE(bells_.is_engine_called());
    EXPECT_FALSE(bells_.sleep_as_holder(0)) << "it was not meant";
    EXPECT_TRUE(bells_.sleep_as_engine(0));
    EXPECT_FALSE(bells_.sleep_as_engine(0));
  }
}

// Or each message that a waiting thread deals with would wake it.
TEST_F(BellsTest, TheEnginesThreadHearsATransportOnceForEachTimeThatItListens) {
  const UniqueFd transport(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
  ASSERT_TRUE(bells_.watch_transport(transport.get()).ok());
  EXPECT_TRUE(bells_.sleep_as_holder(0));
  EXPECT_FALSE(bells_.sleep_as_engine(0)) << "it does not listen";
  bells_.listen();
  EXPECT_TRUE(bells_.sleep_as_engine(0)) << "what rang before it listened";
  const std::uint64_t one = 1;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(write(transport.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
    EXPECT_TRUE(bells_.sleep_as_holder(0));
    EXPECT_FALSE(bells_.sleep_as_engine(0));
  }
  bells_.listen();
  EXPECT_TRUE(bells_.sleep_as_engine(0));
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
