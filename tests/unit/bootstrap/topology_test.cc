#include "core/bootstrap/hosts.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "plugins/base/format.h"

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

Topology compute(const std::vector<RankReport>& reports) {
  Topology topology;
  Status status = find_hosts(reports, &topology);
  EXPECT_TRUE(status.ok()) << status.message();
  return topology;
}

std::string error_of(const std::vector<RankReport>& reports) {
  Topology topology;
  Status status = find_hosts(reports, &topology);
  EXPECT_EQ(status.code(), RODA_ERR_INVALID);
  return status.message();
}

TEST(Topology, OneProcess) {
  const Topology t = compute(on_hosts({"a"}));
  EXPECT_EQ(t.size(), 1);
  EXPECT_EQ(t.local_size(0), 1);
  EXPECT_EQ(t.cross_size(0), 1);
  EXPECT_TRUE(t.is_homogeneous());
  EXPECT_EQ(t.neighbours(0), Ranks{0});
}

TEST(Topology, TwoHostsOfTwoInterleaved) {
  const Topology t = compute(on_hosts({"a", "b", "a", "b"}));
  EXPECT_EQ(t.rank(3), (topology::Numbers{1, 1, 1}));
  EXPECT_EQ(t.rank(2), (topology::Numbers{0, 1, 0}));
  EXPECT_EQ(t.local_size(3), 2);
  EXPECT_EQ(t.cross_size(3), 2);
  EXPECT_EQ(t.neighbours(3), (Ranks{1, 3}));
  EXPECT_EQ(t.levels, (std::vector<topology::Level>{{"host", {0, 1, 0, 1}}}));
  EXPECT_TRUE(t.is_homogeneous());
}

TEST(Topology, CrossSizeDiffersOnUnequalHosts) {
  const Topology t = compute(on_hosts({"a", "a", "b", "c", "c"}));
  EXPECT_EQ(t.cross_size(0), 3);
  EXPECT_EQ(t.rank(2).cross_rank, 1);
  EXPECT_EQ(t.cross_size(4), 2);
  EXPECT_EQ(t.rank(4).cross_rank, 1);
  EXPECT_FALSE(t.is_homogeneous());
}

TEST(Topology, EveryPartOfTheIdentityTellsHostsApart) {
  auto reports = on_hosts({"a", "a", "a"});
  reports[1].host.boot_id = "other";
  reports[2].host.network_namespace = 2;
  EXPECT_EQ(compute(reports).hosts.size(), 3u);
}

TEST(Topology, NumbersAreConsistentForRandomShapes) {
  for (int size = 1; size <= 24; ++size) {
    for (int hosts = 1; hosts <= 5; ++hosts) {
      std::vector<RankReport> reports;
      for (int r = 0; r < size; ++r) reports.push_back(on_host(std::to_string((r * 7 + r / 3) % hosts)));
      const Topology t = compute(reports);
      for (int r = 0; r < size; ++r) {
        const topology::Numbers& numbers = t.rank(r);
        const Ranks neighbours = t.neighbours(r);
        ASSERT_EQ(neighbours.at(static_cast<std::size_t>(numbers.local_rank)), r);
        ASSERT_EQ(static_cast<int>(neighbours.size()), t.local_size(r));
        ASSERT_LT(numbers.cross_rank, t.cross_size(r));
        for (int other = 0; other < r; ++other) {
          ASSERT_FALSE(t.rank(other).local_rank == numbers.local_rank &&
                       t.rank(other).cross_rank == numbers.cross_rank);
        }
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
  const Topology t = compute(reports);
  EXPECT_EQ(t.rank(0), (topology::Numbers{0, 1, 1}));
  EXPECT_EQ(t.rank(2), (topology::Numbers{1, 1, 0}));
  EXPECT_EQ(t.neighbours(0), (Ranks{1, 0}));
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
}

TEST(Topology, DiscoverGivesEveryRankTheSameTable) {
  constexpr int kSize = 6;
  LocalStore store;
  std::vector<std::vector<RankReport>> found(kSize);
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
  const Topology topology = compute(found[0]);
  for (int rank = 0; rank < kSize; ++rank) {
    const auto& reports = found[static_cast<std::size_t>(rank)];
    ASSERT_EQ(reports.size(), 6u);
    EXPECT_EQ(compute(reports), topology);
    EXPECT_EQ(topology.local_size(rank), rank < 4 ? 4 : 2);
    EXPECT_EQ(reports[static_cast<std::size_t>(rank)].note, std::to_string(rank) + "!");
  }
  EXPECT_EQ(topology.hosts[0].name, "first_host");
  EXPECT_NE(topology.hosts[1].place.find("boot "), std::string::npos);
}

// Ranks 0 and 1 share the store's host; the last one comes by way of something that translates addresses.
TEST(KnownAddresses, AreThoseOfConnectionsToTheStore) {
  std::vector<RankReport> reports = on_hosts({"a", "a", "b", "c", "d"});
  EXPECT_TRUE(known_addresses(reports, 0).empty());
  reports[2].ends = {"10.0.0.2", "10.0.0.1"};
  reports[3].ends = {"10.0.0.3", "10.0.0.1"};
  reports[4].ends = {"172.17.0.2", "192.0.2.7"};
  using Addresses = std::vector<std::string>;
  EXPECT_EQ(known_addresses(reports, 1), (Addresses{"10.0.0.1", "192.0.2.7"}));
  EXPECT_EQ(known_addresses(reports, 3), Addresses{"10.0.0.3"});
  EXPECT_EQ(known_addresses(reports, 4), Addresses{"172.17.0.2"});
}

class RemoteStore : public LocalStore {
 public:
  Ends ends() const override { return {"10.0.0.2", "fd00::1"}; }
};

TEST(KnownAddresses, TravelWithTheReports) {
  RemoteStore store;
  std::vector<RankReport> reports;
  const auto deadline = Store::Clock::now() + std::chrono::seconds(20);
  ASSERT_TRUE(discover(store, 0, 1, Knobs(), "", "t", deadline, &reports).ok());
  EXPECT_EQ(reports[0].ends.here, "10.0.0.2");
  EXPECT_EQ(reports[0].ends.there, "fd00::1");
  LocalStore local;
  ASSERT_TRUE(discover(local, 0, 1, Knobs(), "", "t", deadline, &reports).ok());
  EXPECT_TRUE(known_addresses(reports, 0).empty());
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
  const auto each_has = [](const Reports& reports) { return has_core_each(reports, compute(reports), 0); };
  EXPECT_TRUE(each_has({with_cores("a", "boot", 3, 0), with_cores("a", "boot", 3, 0)}));
  EXPECT_TRUE(each_has({with_cores("a", "boot", 3, 0), with_cores("b", "boot", 3, 0)}));
  EXPECT_FALSE(each_has({with_cores("a", "boot", 3, 0), with_cores("b", "boot", 3, 0), with_cores("c", "boot", 3, 0)}));
  EXPECT_TRUE(each_has({with_cores("a", "boot", 3, 0), with_cores("b", "boot", 3, 0), with_cores("c", "other", 3, 0)}));
  EXPECT_TRUE(each_has({with_cores("a", "boot", 1, 0), with_cores("b", "boot", 2, 0)})) << "cores of their own";
  EXPECT_TRUE(each_has({with_cores("a", "boot", 0xff, 1), with_cores("b", "boot", 0xff, 1)})) << "a limit for each";
  EXPECT_FALSE(each_has({with_cores("a", "boot", 0xff, 1), with_cores("a", "boot", 0xff, 1)}));
  EXPECT_TRUE(each_has({with_cores("a", "", 1, 0), with_cores("b", "", 1, 0)})) << "nobody knows the machine";
}

// 8 to a host, or one rank to each; every host as another would be but for its name, boot and network namespace.
std::vector<RankReport> many_ranks(int size, int to_a_host) {
  std::vector<RankReport> reports;
  for (int rank = 0; rank < size; ++rank) {
    const int host = rank / to_a_host, local = rank % to_a_host;
    RankReport report = with_cores(roda::format("gpu-{:04}.cluster.example", host), roda::format("boot-{:032x}", host),
                                   std::uint64_t{3} << (2 * local), 0);
    report.host.network_namespace = static_cast<std::uint64_t>(host);
    report.note = "machine:0123456789abcdef";
    if (host > 0) report.ends.there = "10.0.0.1";
    report.local_rank = local;
    report.local_size = to_a_host;
    report.cross_rank = host;
    report.cross_size = size / to_a_host;
    reports.push_back(report);
  }
  return reports;
}

TEST(Topology, WhatTenThousandRanksHaveInCommonTravelsOnce) {
  for (const int to_a_host : {1, 8}) {
    const std::vector<RankReport> reports = many_ranks(10'000, to_a_host);
    const std::string table = table_of(reports);
    EXPECT_LT(table.size(), 9u * 10'000 / static_cast<unsigned>(to_a_host) + 500);
    std::vector<RankReport> read(reports.size());
    ASSERT_TRUE(reports_of(table, &read));
    Topology topology = compute(reports);
    for (std::size_t host = 0; host < topology.hosts.size(); ++host) {
      topology.hosts[host].place = roda::format("boot {}, network namespace {}", host + 1, host + 1);
    }
    EXPECT_EQ(compute(read), topology);
    EXPECT_EQ(table_of(read), table);
    EXPECT_EQ(read[9'999].note, reports[9'999].note);
    EXPECT_EQ(read[9'999].cores.cores, reports[9'999].cores.cores);
    EXPECT_EQ(read[9'999].ends.there, "10.0.0.1");
  }
}

// Of any ranks, in any order; and whatever else is no such text is refused.
TEST(Topology, TablesOfReportsAreWholeOrRefused) {
  std::mt19937 random(7);
  const auto any = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  for (int turn = 0; turn < 200; ++turn) {
    std::vector<RankReport> reports(static_cast<std::size_t>(1 + any(20)));
    for (RankReport& report : reports) {
      report = with_cores(any(2) ? "@1*2" : "-a", any(3) ? std::to_string(1 + any(2)) : "", random(), any(3) / 2.0);
      report.cores.cores[static_cast<std::size_t>(any(16))] = random();
      if (any(2) == 0) report.local_rank = any(1 << 20);
      if (any(2) == 0) report.cross_size = any(3);
    }
    std::vector<RankReport> read(reports.size()), again(reports.size());
    const std::string table = table_of(reports);
    ASSERT_TRUE(reports_of(table, &read)) << table;
    for (std::size_t rank = 0; rank < reports.size(); ++rank) {
      EXPECT_EQ(read[rank].host == read[0].host, reports[rank].host == reports[0].host);
      EXPECT_EQ(read[rank].cores.cores, reports[rank].cores.cores);
      EXPECT_EQ(read[rank].cores.quota, reports[rank].cores.quota);
      EXPECT_EQ(read[rank].local_rank, reports[rank].local_rank);
      EXPECT_EQ(read[rank].cross_size, reports[rank].cross_size);
    }
    std::string wrong = table;
    wrong[static_cast<std::size_t>(any(static_cast<int>(wrong.size())))] = static_cast<char>(any(256));
    static_cast<void>(reports_of(wrong, &again));
    EXPECT_FALSE(reports_of(table.substr(0, table.size() / 2), &again));
    again.emplace_back();
    EXPECT_FALSE(reports_of(table, &again));
  }
}

TEST(Topology, DiscoverRefusesARankOutsideTheJob) {
  LocalStore store;
  std::vector<RankReport> reports;
  EXPECT_EQ(discover(store, 2, 2, Knobs(), "", "t", Store::Clock::now(), &reports).code(), RODA_ERR_INVALID);
}

TEST(Claim, TheSecondProcessOfARankIsRefused) {
  LocalStore store;
  const auto deadline = Store::Clock::now() + std::chrono::seconds(20);
  EXPECT_TRUE(claim_rank(store, 0, this_host("here"), "job/1", deadline).ok());
  EXPECT_TRUE(claim_rank(store, 1, this_host("here"), "job/1", deadline).ok());
  EXPECT_TRUE(claim_rank(store, 1, this_host("here"), "job/2", deadline).ok());
  const Status second = claim_rank(store, 1, this_host("elsewhere"), "job/1", deadline);
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
