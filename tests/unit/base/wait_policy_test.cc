#include "plugins/base/wait_policy.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>

namespace roda {
namespace {

CoreBudget budget(std::uint64_t mask, double quota = 0) {
  CoreBudget made;
  made.cores[0] = mask;
  made.quota = quota;
  return made;
}

TEST(WaitPolicy, RanksBoundToOneCoreEachHaveAllOfThem) {
  CoreBudget two[] = {budget(1), budget(2)};
  EXPECT_EQ(cores_of(two), 2);
  CoreBudget same[] = {budget(1), budget(1)};
  EXPECT_EQ(cores_of(same), 1);
}

TEST(WaitPolicy, TheSmallestQuotaCuts) {
  CoreBudget limited[] = {budget(0xff, 0), budget(0xff, 2.5), budget(0xff, 7)};
  EXPECT_EQ(cores_of(limited), 2);
  CoreBudget half[] = {budget(0xff, 0.5)};
  EXPECT_EQ(cores_of(half), 1);
}

TEST(WaitPolicy, OwnBudgetAgreesWithTheAffinityMask) {
  cpu_set_t set;
  ASSERT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  CoreBudget own = core_budget();
  own.quota = 0;
  EXPECT_EQ(cores_of({&own, 1}), CPU_COUNT(&set));
}

TEST(WaitPolicy, LooksAreFurtherApartTheLongerAWaitHasBeen) {
  EXPECT_EQ(WaitPolicy::look_ms(0), 1);
  int waited = 0;
  for (std::uint32_t looks = 0; waited < 60'000; ++looks) {
    const int next = WaitPolicy::look_ms(looks);
    EXPECT_LE(next, std::max(1, waited / 4));  // the end is seen soon, beside what the wait took
    EXPECT_LE(next, 32);
    waited += next;
    if (waited > 10'000) {
      EXPECT_GT(next, 16);
    }
  }
}

TEST(WaitPolicy, SpinsOnlyWithACoreForEveryRank) {
  EXPECT_TRUE(WaitPolicy(2, 2).spins());
  EXPECT_FALSE(WaitPolicy(3, 2).spins());
  EXPECT_TRUE(WaitPolicy(2, 2).worth_spinning(0));
  EXPECT_FALSE(WaitPolicy(2, 2).worth_spinning(1u << 30));
  EXPECT_FALSE(WaitPolicy(3, 2).worth_spinning(1u << 10));
}

}  // namespace
}  // namespace roda
