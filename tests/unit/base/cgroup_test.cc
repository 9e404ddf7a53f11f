#include "plugins/base/wait_policy.h"

#include <gtest/gtest.h>

#include "tests/unit/folder.h"

namespace roda {
namespace {

TEST(Cgroup, NoFilesNoLimit) {
  const Folder folder;
  EXPECT_EQ(cgroup_cpu_limit(folder.path()), 0);
  folder.write("/proc/self/cgroup", "0::/");
  EXPECT_EQ(cgroup_cpu_limit(folder.path()), 0);
  folder.write("/sys/fs/cgroup/cpu.max", "max 100000");
  EXPECT_EQ(cgroup_cpu_limit(folder.path()), 0);
}

TEST(Cgroup, VersionTwoTakesTheLeastOfAllLevels) {
  const Folder folder;
  folder.write("/proc/self/cgroup", "0::/pod/container");
  folder.write("/sys/fs/cgroup/pod/container/cpu.max", "400000 100000");
  EXPECT_DOUBLE_EQ(cgroup_cpu_limit(folder.path()), 4);
  folder.write("/sys/fs/cgroup/pod/cpu.max", "150000 100000");
  EXPECT_DOUBLE_EQ(cgroup_cpu_limit(folder.path()), 1.5);
}

TEST(Cgroup, InsideAContainerTheRootIsItsOwnGroup) {
  const Folder folder;
  folder.write("/proc/self/cgroup", "0::/../elsewhere");
  folder.write("/sys/fs/cgroup/cpu.max", "50000 100000");
  EXPECT_DOUBLE_EQ(cgroup_cpu_limit(folder.path()), 0.5);
}

TEST(Cgroup, VersionOne) {
  const Folder folder;
  folder.write("/proc/self/cgroup", "5:memory:/x\n3:cpu,cpuacct:/docker/1\n1:name=systemd:/");
  folder.write("/sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "-1");
  folder.write("/sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_period_us", "100000");
  EXPECT_EQ(cgroup_cpu_limit(folder.path()), 0);
  folder.write("/sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us", "200000");
  folder.write("/sys/fs/cgroup/cpu/docker/1/cpu.cfs_period_us", "100000");
  EXPECT_DOUBLE_EQ(cgroup_cpu_limit(folder.path()), 2);
}

TEST(Cgroup, VersionTwoBesideVersionOne) {
  const Folder folder;
  folder.write("/proc/self/cgroup", "1:cpu:/\n0::/a");
  folder.write("/sys/fs/cgroup/unified/a/cpu.max", "300000 100000");
  EXPECT_DOUBLE_EQ(cgroup_cpu_limit(folder.path()), 3);
}

TEST(Cgroup, NonsenseIsNoLimit) {
  const Folder folder;
  folder.write("/proc/self/cgroup", "garbage\n0::/a");
  folder.write("/sys/fs/cgroup/a/cpu.max", "100000 0");
  EXPECT_EQ(cgroup_cpu_limit(folder.path()), 0);
  folder.write("/sys/fs/cgroup/a/cpu.max", "lots");
  EXPECT_EQ(cgroup_cpu_limit(folder.path()), 0);
}

}  // namespace
}  // namespace roda
