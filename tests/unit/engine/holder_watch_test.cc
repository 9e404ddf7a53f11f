#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "core/engine/holder_watch.h"

namespace roda::engine {
namespace {

constexpr std::chrono::milliseconds kLook{1};

class HolderWatchTest : public ::testing::Test {
 protected:
  HolderWatch watch(int looks) {
    return {baton_, looks * kLook, kLook,
            [this] {
              looks_.fetch_add(1);
              if (turns_end_) begin_turn();
              return has_failed_.load();
            },
            [this] { has_given_up_ = true; }};
  }
  // Until the watch has asked so many times more whether the job has failed.
  void await_looks(int count) {
    for (const int end = looks_ + count; looks_ < end;) std::this_thread::yield();
  }
  RODA_UNCHECKED void take() { ASSERT_TRUE(baton_.try_take()); }
  RODA_UNCHECKED void begin_turn() { baton_.begin_turn(); }
  RODA_UNCHECKED void sleeps(bool is_so) { baton_.sleeps(is_so); }

  Baton baton_;
  std::atomic<bool> has_failed_{false}, turns_end_{false}, has_given_up_{false};
  std::atomic<int> looks_{0};
};

TEST_F(HolderWatchTest, GivesUpWhenOneTurnLastsOnAfterAFailureAndNotBefore) {
  take();
  const HolderWatch watched = watch(5);
  await_looks(20);
  EXPECT_FALSE(has_given_up_) << "slow, in a job that works";
  has_failed_ = true;
  while (!has_given_up_) std::this_thread::yield();
}

TEST_F(HolderWatchTest, TurnsThatEndAreNoLockUp) {
  has_failed_ = true;
  turns_end_ = true;
  take();
  const HolderWatch watched = watch(1);
  await_looks(20);
  EXPECT_FALSE(has_given_up_);
}

TEST_F(HolderWatchTest, AHolderThatSleepsAndABatonThatNobodyHoldsAreNotAskedAfter) {
  has_failed_ = true;
  EXPECT_FALSE(baton_.turn_under_way().has_value());
  take();
  EXPECT_TRUE(baton_.turn_under_way().has_value());
  sleeps(true);
  EXPECT_FALSE(baton_.turn_under_way().has_value());
}

}  // namespace
}  // namespace roda::engine
