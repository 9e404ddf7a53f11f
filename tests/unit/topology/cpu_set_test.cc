#include "algorithms/topology/machine.h"

#include <gtest/gtest.h>

namespace roda::topology {
namespace {

TEST(CpuSet, PrintsAndParsesTheKernelsForm) {
  for (const char* text : {"", "0", "0-3", "0-3,8", "1,3,5-6", "65535"}) {
    CpuSet cpus;
    ASSERT_TRUE(parse_cpus(text, &cpus)) << text;
    EXPECT_EQ(print_cpus(cpus), text);
  }
  CpuSet cpus;
  ASSERT_TRUE(parse_cpus("0-1,4", &cpus));
  EXPECT_EQ(cpus, (CpuSet{0, 1, 4}));
}

TEST(CpuSet, RefusesEverythingElse) {
  CpuSet cpus{7};
  for (const char* text : {"a", "0-", "-1", "3-1", "0,0", "1,0", "0-3,2", ",1", "1,", "1 2", "65536", "0x1",
                           "99999999999999999999", "0-99999999"}) {
    EXPECT_FALSE(parse_cpus(text, &cpus)) << text;
    EXPECT_EQ(cpus, CpuSet{7}) << text;
  }
}

TEST(CpuSet, Containment) {
  EXPECT_TRUE(contains({0, 1, 2}, {0, 2}));
  EXPECT_TRUE(contains({0}, {}));
  EXPECT_FALSE(contains({0, 1}, {1, 2}));
  EXPECT_EQ(intersect({0, 1, 2}, {1, 2, 3}), (CpuSet{1, 2}));
}

}  // namespace
}  // namespace roda::topology
