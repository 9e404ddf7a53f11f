#include "core/observe/rank_load.h"

#include <gtest/gtest.h>

#include "tests/unit/folder.h"

namespace roda::observe {
namespace {

TEST(RankLoad, TellsTheCauseThatExplainsHalfOfTheLateness) {
  const RankLoad before{.at = 1'000, .ran = 500};
  const auto after = [&](std::int64_t RankLoad::*field, std::int64_t value) {
    RankLoad load{.at = 101'000, .ran = 100'400};
    load.*field = value;
    return load;
  };
  EXPECT_EQ(cause_of(before, after(&RankLoad::throttled, 40'000), 300, 50),
            "its cgroup is throttled, 40 % of the time");
  EXPECT_EQ(cause_of(before, after(&RankLoad::throttled, 10'000), 300, 50), "its main thread computes all the time");
  EXPECT_EQ(cause_of(before, after(&RankLoad::queued, 20'000), 300, 50),
            "its main thread waits for a core, 20 % of the time");
  EXPECT_EQ(cause_of(before, after(&RankLoad::ran, 40'500), 300, 50),
            "its main thread sleeps, 60 % of the time, or is stopped");
  EXPECT_EQ(cause_of(before, after(&RankLoad::queued, 18'000), 300, 50), "its main thread computes all the time")
      << "the others wait for a core as well";
  EXPECT_EQ(queued_share(before, after(&RankLoad::queued, 20'000)), 200);
  EXPECT_EQ(cause_of({}, after(&RankLoad::ran, 0), 300, 50), "") << "one look alone";
}

TEST(RankLoad, IsReadFromTheKernelsFiles) {
  for (const bool is_new : {true, false}) {
    const Folder folder;
    folder.write("/proc/self/schedstat", "7000 300 12");
    folder.write("/proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=9\nfull avg10=0.00 total=4");
    folder.write("/proc/self/cgroup", is_new ? "0::/pod/one" : "5:memory:/x\n4:cpu,cpuacct:/pod/one\n0::/");
    const std::string root = is_new ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu";
    const std::string word = is_new ? "throttled_usec 5" : "throttled_time 5000";
    folder.write(root + "/pod/one/cpu.stat", "nr_periods 3\n" + word);
    folder.write(root + "/pod/cpu.stat", word);
    const RankLoad load = read_load(folder.path());
    EXPECT_EQ(load.ran, 7000);
    EXPECT_EQ(load.queued, 300);
    EXPECT_EQ(load.stalled, 9000);
    EXPECT_EQ(load.throttled, 10'000) << "at both levels";
    EXPECT_GT(load.at, 0);
  }
  EXPECT_EQ(read_load("/nowhere").ran, 0);
}

}  // namespace
}  // namespace roda::observe
