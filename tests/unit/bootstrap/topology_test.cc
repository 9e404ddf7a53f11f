#include "core/bootstrap/topology.h"

#include <gtest/gtest.h>

#include <thread>

namespace roda {
namespace {

using Ranks = std::vector<int>;

RankReport on_host(const std::string& name) {
  RankReport report;
  report.host = {"boot", name, 1};
  return report;
}

std::vector<RankReport> on_hosts(const std::vector<std::string>& names) {
  std::vector<RankReport> reports;
  for (const auto& name : names) reports.push_back(on_host(name));
  return reports;
}

Topology compute(const std::vector<RankReport>& reports, int rank) {
  Topology topology;
  Status status = compute_topology(reports, rank, &topology);
  EXPECT_TRUE(status.ok()) << status.message();
  return topology;
}

std::string error_of(const std::vector<RankReport>& reports, int rank = 0) {
  Topology topology;
  Status status = compute_topology(reports, rank, &topology);
  EXPECT_EQ(status.code(), RODA_ERR_INVALID);
  return status.message();
}

TEST(Topology, OneProcess) {
  Topology t = compute(on_hosts({"a"}), 0);
  EXPECT_EQ(t.size, 1);
  EXPECT_EQ(t.local_size, 1);
  EXPECT_EQ(t.cross_size, 1);
  EXPECT_TRUE(t.is_homogeneous);
  EXPECT_EQ(t.local_ranks, Ranks{0});
}

TEST(Topology, TwoHostsOfTwoInterleaved) {
  auto reports = on_hosts({"a", "b", "a", "b"});
  Topology t = compute(reports, 3);
  EXPECT_EQ(t.local_rank, 1);
  EXPECT_EQ(t.local_size, 2);
  EXPECT_EQ(t.cross_rank, 1);
  EXPECT_EQ(t.cross_size, 2);
  EXPECT_EQ(t.local_ranks, (Ranks{1, 3}));
  EXPECT_EQ(t.cross_ranks, (Ranks{2, 3}));
  EXPECT_EQ(t.host_of, (Ranks{0, 1, 0, 1}));
  EXPECT_EQ(t.local_rank_of, (Ranks{0, 0, 1, 1}));
  EXPECT_TRUE(t.is_homogeneous);
}

TEST(Topology, CrossSizeDiffersOnUnequalHosts) {
  auto reports = on_hosts({"a", "a", "b", "c", "c"});
  EXPECT_EQ(compute(reports, 0).cross_size, 3);
  EXPECT_EQ(compute(reports, 2).cross_rank, 1);
  EXPECT_EQ(compute(reports, 4).cross_size, 2);
  EXPECT_EQ(compute(reports, 4).cross_rank, 1);
  EXPECT_FALSE(compute(reports, 4).is_homogeneous);
}

TEST(Topology, EveryPartOfTheIdentityTellsHostsApart) {
  auto reports = on_hosts({"a", "a", "a"});
  reports[1].host.boot_id = "other";
  reports[2].host.network_namespace = 2;
  EXPECT_EQ(compute(reports, 0).hosts.size(), 3u);
}

TEST(Topology, NumbersAreConsistentForRandomShapes) {
  for (int size = 1; size <= 24; ++size) {
    for (int hosts = 1; hosts <= 5; ++hosts) {
      std::vector<RankReport> reports;
      for (int r = 0; r < size; ++r) reports.push_back(on_host(std::to_string((r * 7 + r / 3) % hosts)));
      for (int r = 0; r < size; ++r) {
        Topology t = compute(reports, r);
        ASSERT_EQ(t.local_ranks.at(static_cast<std::size_t>(t.local_rank)), r);
        ASSERT_EQ(t.cross_ranks.at(static_cast<std::size_t>(t.cross_rank)), r);
        ASSERT_EQ(static_cast<int>(t.local_ranks.size()), t.local_size);
        ASSERT_EQ(static_cast<int>(t.cross_ranks.size()), t.cross_size);
      }
    }
  }
}

TEST(Topology, TheLaunchersOrderWins) {
  auto reports = on_hosts({"a", "a", "b", "b"});
  for (int r = 0; r < 4; ++r) {
    auto& report = reports[static_cast<std::size_t>(r)];
    report.local_rank = 1 - r % 2;
    report.local_size = 2;
    report.cross_rank = 1 - r / 2;
    report.cross_size = 2;
  }
  Topology t = compute(reports, 0);
  EXPECT_EQ(t.local_rank, 1);
  EXPECT_EQ(t.local_ranks, (Ranks{1, 0}));
  EXPECT_EQ(t.cross_rank, 1);
  EXPECT_EQ(t.cross_ranks, (Ranks{2, 0}));
}

TEST(Topology, ContradictionsNameBothSides) {
  auto reports = on_hosts({"a", "a"});
  reports[1].local_size = 1;
  EXPECT_EQ(
      error_of(reports),
      "rank 1: the launcher says HOROVOD_LOCAL_SIZE=1, but 2 ranks are found (ranks 0, 1 share the host); correct "
      "the launcher, or tell hosts apart by HOROVOD_HOSTNAME");
  reports = on_hosts({"a", "a"});
  reports[0].local_rank = reports[1].local_rank = 0;
  EXPECT_NE(error_of(reports).find("rank 1: the launcher says HOROVOD_LOCAL_RANK=0, but rank 0 has it too"),
            std::string::npos);
  reports[1].local_rank = 2;
  EXPECT_NE(error_of(reports).find("HOROVOD_LOCAL_RANK=2, but there are only 2"), std::string::npos);
  reports[1].local_rank.reset();
  EXPECT_NE(error_of(reports).find("HOROVOD_LOCAL_RANK=nothing, but rank 0 says 0"), std::string::npos);
  reports = on_hosts({"a", "b"});
  reports[0].cross_size = 3;
  EXPECT_NE(error_of(reports).find("HOROVOD_CROSS_SIZE=3, but 2 ranks are found (ranks 0, 1 share the cross group)"),
            std::string::npos);
  error_of(on_hosts({"a"}), 1);
  error_of(on_hosts({"a"}), -1);
}

TEST(Topology, SubsetsHaveNumbersOfTheirOwn) {
  Topology world = compute(on_hosts({"a", "a", "b", "b", "b"}), 3);
  Topology set = subset(world, {1, 3, 4});
  EXPECT_EQ(set.rank, 1);
  EXPECT_EQ(set.size, 3);
  EXPECT_EQ(set.local_rank, 0);
  EXPECT_EQ(set.local_size, 2);
  EXPECT_EQ(set.cross_rank, 1);
  EXPECT_EQ(set.cross_size, 2);
  EXPECT_EQ(set.local_ranks, (Ranks{1, 2}));
  EXPECT_EQ(set.host_of, (Ranks{0, 1, 1}));
  EXPECT_FALSE(set.is_homogeneous);
  Topology all = subset(world, {0, 1, 2, 3, 4});
  EXPECT_EQ(all.describe(true), world.describe(true));
}

TEST(Topology, DiscoverGivesEveryRankTheSameTable) {
  constexpr int kSize = 6;
  LocalStore store;
  std::vector<Topology> found(kSize);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kSize; ++rank) {
    threads.emplace_back([&, rank] {
      Knobs knobs;
      knobs.hostname = rank < 4 ? "first host" : "second";
      auto deadline = Store::Clock::now() + std::chrono::seconds(20);
      Status status = discover(store, rank, kSize, knobs, std::to_string(rank) + "!", "t", deadline,
                               &found[static_cast<std::size_t>(rank)]);
      EXPECT_TRUE(status.ok()) << status.message();
    });
  }
  for (auto& thread : threads) thread.join();
  for (int rank = 0; rank < kSize; ++rank) {
    const Topology& t = found[static_cast<std::size_t>(rank)];
    EXPECT_EQ(t.rank, rank);
    EXPECT_EQ(t.local_size, rank < 4 ? 4 : 2);
    EXPECT_EQ(t.hosts, found[0].hosts);
    EXPECT_EQ(t.pids, found[0].pids);
    EXPECT_EQ(t.notes, (std::vector<std::string>{"0!", "1!", "2!", "3!", "4!", "5!"}));
  }
  EXPECT_EQ(found[0].hosts[0].hostname, "first_host");
  EXPECT_NE(found[0].describe(false).find("host 1 second: ranks 4, 5"), std::string::npos);
}

RankReport with_cores(const std::string& name, const std::string& boot, std::uint64_t mask, double quota) {
  RankReport report = on_host(name);
  report.host.boot_id = boot;
  report.cores.cores[0] = mask;
  report.cores.quota = quota;
  return report;
}

TEST(Topology, ContainersOfOneMachineShareItsCores) {
  using Reports = std::vector<RankReport>;
  const auto each_has = [](const Reports& reports) { return compute(reports, 0).has_core_each; };
  EXPECT_TRUE(each_has({with_cores("a", "boot", 3, 0), with_cores("a", "boot", 3, 0)}));
  EXPECT_TRUE(each_has({with_cores("a", "boot", 3, 0), with_cores("b", "boot", 3, 0)}));
  EXPECT_FALSE(each_has({with_cores("a", "boot", 3, 0), with_cores("b", "boot", 3, 0), with_cores("c", "boot", 3, 0)}));
  EXPECT_TRUE(each_has({with_cores("a", "boot", 3, 0), with_cores("b", "boot", 3, 0), with_cores("c", "other", 3, 0)}));
  EXPECT_TRUE(each_has({with_cores("a", "boot", 1, 0), with_cores("b", "boot", 2, 0)})) << "cores of their own";
  EXPECT_TRUE(each_has({with_cores("a", "boot", 0xff, 1), with_cores("b", "boot", 0xff, 1)})) << "a limit for each";
  EXPECT_FALSE(each_has({with_cores("a", "boot", 0xff, 1), with_cores("a", "boot", 0xff, 1)}));
  EXPECT_TRUE(each_has({with_cores("a", "", 1, 0), with_cores("b", "", 1, 0)})) << "nobody knows the machine";
}

TEST(Topology, DiscoverRefusesARankOutsideTheJob) {
  LocalStore store;
  Topology topology;
  EXPECT_EQ(discover(store, 2, 2, Knobs(), "", "t", Store::Clock::now(), &topology).code(), RODA_ERR_INVALID);
}

TEST(Topology, DiscoverRefusesTheSecondProcessOfARank) {
  LocalStore store;
  const auto deadline = Store::Clock::now() + std::chrono::seconds(20);
  Status second;
  Topology topology, other;
  Knobs knobs;
  knobs.hostname = "here";
  std::thread rank1([&] {
    EXPECT_TRUE(discover(store, 1, 2, knobs, "", "t", deadline, &other).ok());
    second = discover(store, 1, 2, knobs, "", "t", deadline, &other);
  });
  EXPECT_TRUE(discover(store, 0, 2, knobs, "", "t", deadline, &topology).ok());
  rank1.join();
  EXPECT_EQ(second.code(), RODA_ERR_PRECONDITION);
  EXPECT_EQ(second.rank(), 1);
  EXPECT_EQ(second.message().find("rank 1 was started twice: process "), 0u) << second.message();
  EXPECT_NE(second.message().find(" on host here has this number too"), std::string::npos) << second.message();
}

TEST(HostIdentity, ThisMachineHasOne) {
  HostIdentity host = this_host("");
  EXPECT_FALSE(host.hostname.empty());
  EXPECT_EQ(host, this_host(""));
  EXPECT_EQ(this_host("x\ny z").hostname, "x_y_z");
}

}  // namespace
}  // namespace roda
