#include "core/observe/rank_load.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "tests/unit/folder.h"

namespace roda::observe {
namespace {

TEST(RankLoad, TellsTheCauseThatExplainsHalfOfTheLateness) {
  const RankLoad before{.at = 1'000, .ran = 500};
  const auto with = [&](std::int64_t RankLoad::*field, std::int64_t value) {
    RankLoad load{.at = 101'000, .ran = 100'400};
    load.*field = value;
    return load;
  };
  const auto cause = [&](std::int64_t RankLoad::*field, std::int64_t value) {
    return cause_of(before, with(field, value), 300, {.ran = 999, .queued = 50, .kernel = 100, .collected = 100});
  };
  const std::string computes = "its main thread computes all the time";
  EXPECT_EQ(cause(&RankLoad::throttled, 40'000), "its cgroup is throttled, 40 % of the time");
  EXPECT_EQ(cause(&RankLoad::throttled, 10'000), computes);
  EXPECT_EQ(cause(&RankLoad::queued, 20'000), "its main thread waits for a core, 20 % of the time");
  EXPECT_EQ(cause(&RankLoad::queued, 18'000), computes) << "the others wait for a core as well";
  EXPECT_EQ(cause(&RankLoad::collected, 30'000), "Python's garbage collection runs in it, 30 % of the time");
  EXPECT_EQ(cause(&RankLoad::collected, 20'000), computes) << "the others collect as well";
  EXPECT_EQ(cause(&RankLoad::kernel, 30'000), "its main thread is in the kernel, 30 % of the time");
  EXPECT_EQ(cause(&RankLoad::kernel, 20'000), computes);
  EXPECT_EQ(cause(&RankLoad::ran, 40'500), "its main thread sleeps, 60 % of the time, or is stopped");
  RankLoad longer = with(&RankLoad::queued, 50'000);
  longer.ran = 50'500;
  EXPECT_EQ(cause_of(before, longer, 300, {.ran = 300, .queued = 300}), computes) << "so it waits for longer, too";
  RankLoad pages = with(&RankLoad::kernel, 30'000);
  pages.new_pages = 2;  // in a tenth of a millisecond
  EXPECT_EQ(cause_of(before, pages, 300, {.ran = 999}),
            "its main thread is in the kernel, 30 % of the time, for 20000 new pages a second");
  pages.kernel = 10'000;
  EXPECT_EQ(cause_of(before, pages, 300, {.ran = 850}),
            "its main thread is in the kernel, 10 % of the time, for 20000 new pages a second")
      << "half of what it runs for";
  EXPECT_EQ(cause_of(before, pages, 300, {.ran = 999}), computes);
  RankLoad reads = with(&RankLoad::ran, 40'500);
  reads.fetched = 1000;
  EXPECT_EQ(cause_of(before, reads, 300, {.ran = 999}),
            "its main thread sleeps, 60 % of the time, and 10 MB a second come from a disk");
  RankLoad device = with(&RankLoad::ran, 40'500);
  EXPECT_EQ(cause_of(before, device, 300, {.ran = 100}), computes) << "and all sleep while a device works";
  EXPECT_EQ(share_of(&RankLoad::queued, before, with(&RankLoad::queued, 20'000)), 200);
  EXPECT_EQ(cause_of({}, with(&RankLoad::ran, 0), 300, {}), "its kernel has not been asked twice yet");
}

TEST(RankLoad, IsReadFromTheKernelsFiles) {
  for (const bool is_new : {true, false}) {
    const Folder folder;
    folder.write("/proc/self/schedstat", "7000 300 12");
    folder.write("/proc/self/task/" + std::to_string(::getpid()) + "/stat",
                 "7 (a (name) 1) R 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20");
    folder.write("/proc/self/io", "rchar: 500\nwchar: 3\nsyscr: 1\nread_bytes: 400\n");
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
    EXPECT_EQ(load.kernel, 25 * (1'000'000'000 / ::sysconf(_SC_CLK_TCK)));
    EXPECT_EQ(load.read, 500);
    EXPECT_EQ(load.fetched, 400);
    EXPECT_EQ(load.throttled, 10'000) << "at both levels";
    EXPECT_GT(load.at, 0);
  }
  EXPECT_EQ(read_load("/nowhere").ran, 0);
}

}  // namespace
}  // namespace roda::observe
