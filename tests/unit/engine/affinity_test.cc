#include "core/engine/affinity.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace roda::engine {
namespace {

int core_in(std::string_view list, int local_rank, int local_size) {
  int core = -1;
  const Status status = core_of(list, local_rank, local_size, &core);
  EXPECT_TRUE(status.ok()) << status.message();
  return core;
}

std::string error_of(std::string_view list, int local_size) {
  int core = -1;
  const std::string text = core_of(list, 0, local_size, &core).message();
  EXPECT_EQ(core, -1);
  return text;
}

TEST(Affinity, EachRankOfAHostHasAnEntry) {
  EXPECT_EQ(core_in("3", 0, 1), 3);
  EXPECT_EQ(core_in("3,0,11", 0, 3), 3);
  EXPECT_EQ(core_in("3,0,11", 2, 3), 11);
  EXPECT_EQ(core_in("3, 0, 11", 1, 2), 0);
}

TEST(Affinity, AWrongListIsNamed) {
  EXPECT_EQ(error_of("1,x,2", 3), "'x' is no number of a core");
  EXPECT_EQ(error_of("1, ,2", 3), "'' is no number of a core");
  EXPECT_EQ(error_of("-1", 1), "'-1' is no number of a core");
  EXPECT_EQ(error_of("1 ", 1), "'1 ' is no number of a core");
  EXPECT_EQ(error_of("99999999999", 1), "'99999999999' is no number of a core");
  EXPECT_EQ(error_of("1", 2), "it names 1 core for 2 ranks of this host; give one for each");
  EXPECT_EQ(error_of("1,2,", 3), "it names 2 cores for 3 ranks of this host; give one for each");
}

TEST(Affinity, AThreadIsPinnedToACoreThatItMayUse) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  int core = 0;
  while (!CPU_ISSET(core, &before)) ++core;
  std::thread([core] {
    EXPECT_TRUE(pin_to_core(::pthread_self(), core).ok());
    cpu_set_t set;
    ASSERT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
    EXPECT_EQ(CPU_COUNT(&set), 1);
    EXPECT_TRUE(CPU_ISSET(core, &set));
  }).join();
  EXPECT_EQ(pin_to_core(::pthread_self(), CPU_SETSIZE - 1).message(), "core 1023 can't be used: Invalid argument");
  EXPECT_EQ(pin_to_core(::pthread_self(), CPU_SETSIZE).message(), "core 1024 can't be used: Invalid argument");
}

}  // namespace
}  // namespace roda::engine
