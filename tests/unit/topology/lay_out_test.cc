#include "core/topology/lay_out.h"

#include <gtest/gtest.h>

#include "core/topology/exchange.h"

namespace roda::topology {
namespace {

using Units = std::vector<std::int32_t>;

// Two packages of two cores, each a NUMA node; one cache for each package.
Machine two_sockets() {
  Machine machine;
  machine.cpus = {0, 1, 2, 3};
  machine.cores = {{0}, {1}, {2}, {3}};
  machine.packages = {{{0, 1}, ""}, {{2, 3}, ""}};
  machine.numa_nodes = {{0, {0, 1}, 8, {}}, {1, {2, 3}, 8, {}}};
  machine.caches = {{2, 1024, {{0}, {1}, {2}, {3}}}, {3, 4096, {{0, 1}, {2, 3}}}};
  return machine;
}

Topology with_hosts(std::vector<std::vector<int>> ranks) {
  Topology topology{{{"m", two_sockets()}}, {}, {}, {}, {}};
  for (std::size_t i = 0; i < ranks.size(); ++i) topology.hosts.push_back({"h" + std::to_string(i), "", 0, ranks[i]});
  place_ranks(&topology);
  return topology;
}

TEST(BoundUnits, FollowTheBindings) {
  Topology topology = with_hosts({{0, 1, 2}, {3}});
  topology.bindings = {{{0}, 0}, {{2, 3}, 0}, {{1}, 0}, {{0}, 0}};
  for (const char* level : {"package", "numa", "cache"}) {
    EXPECT_EQ(bound_units(topology, level), (Units{0, 1, 0, 2})) << level;
  }
  EXPECT_EQ(topology.levels[0].units, (Units{0, 0, 0, 1}));
  EXPECT_EQ(levels_of(topology, {3, 0})[0].units, (Units{1, 0}));
}

TEST(BoundUnits, SayNothingOfRanksThatMayRunAnywhere) {
  Topology topology = with_hosts({{0, 1}});
  EXPECT_TRUE(bound_units(topology, "package").empty());
  topology.bindings = {{{0}, 0}, {{0, 1, 2, 3}, 0}};
  EXPECT_TRUE(bound_units(topology, "package").empty());
  EXPECT_EQ(topology.levels[0].units, (Units{0, 0}));
}

TEST(LayOut, FillsHostAfterHost) {
  const Topology shape{{{"m", two_sockets()}}, {}, {}, {}, {}};
  Topology laid;
  ASSERT_TRUE(lay_out(shape, 0, &laid).ok());
  EXPECT_EQ(laid.size(), 4);  // a rank for each core
  EXPECT_EQ(laid.hosts.size(), 1u);
  ASSERT_TRUE(lay_out(shape, 9, &laid).ok());
  EXPECT_EQ(laid.levels[0].units, (Units{0, 0, 0, 0, 1, 1, 1, 1, 2}));
}

TEST(LayOut, OneRankForEachGpu) {
  Machine machine = two_sockets();
  EXPECT_EQ(natural_ranks(machine), 4);
  machine.gpus.resize(2);
  EXPECT_EQ(natural_ranks(machine), 2);
  EXPECT_EQ(natural_ranks(Machine()), 1);
}

TEST(LayOut, TakesHostsAsTheyAre) {
  Topology laid;
  EXPECT_TRUE(lay_out(with_hosts({{0, 1}, {2}}), 3, &laid).ok());
  const Status status = lay_out(with_hosts({{0, 1}, {2}}), 5, &laid);
  EXPECT_NE(status.message().find("places 3 ranks on 2 hosts; it can't be laid out for 5 ranks"), std::string::npos)
      << status.message();
  EXPECT_FALSE(lay_out(Topology(), 1, &laid).ok());
  EXPECT_NE(lay_out({{{"a", {}}, {"b", {}}}, {}, {}, {}, {}}, 1, &laid).message().find("2 machines and no hosts"),
            std::string::npos);
}

Topology job(std::vector<std::vector<int>> ranks) {
  Topology found;
  for (auto& r : ranks) found.hosts.push_back({"real" + std::to_string(found.hosts.size()), "boot", 0, std::move(r)});
  place_ranks(&found);
  return found;
}

std::string contradiction(const Topology& file, Topology found) {
  const Status status = fit(file, &found);
  EXPECT_EQ(status.code(), RODA_ERR_INVALID);
  return status.message();
}

TEST(Fit, AMachineStandsForEveryHost) {
  Topology fitted = job({{0, 1}, {2, 3}});
  ASSERT_TRUE(fit({{{"m", two_sockets()}}, {}, {}, {}, {}}, &fitted).ok());
  EXPECT_EQ(fitted.hosts.size(), 2u);
  EXPECT_EQ(fitted.hosts[1].name, "real1");
  EXPECT_TRUE(fitted.bindings.empty());
}

TEST(Fit, HostsMustAgree) {
  Topology file = with_hosts({{0, 1}, {2, 3}});
  file.bindings.resize(4);
  Topology fitted = job({{0, 1}, {2, 3}});
  ASSERT_TRUE(fit(file, &fitted).ok());
  EXPECT_EQ(fitted.hosts[0].place, "boot");
  EXPECT_EQ(fitted.bindings.size(), 4u);
  EXPECT_NE(contradiction(file, job({{0, 1, 2, 3}})).find("it has 2 hosts, the job runs on 1"), std::string::npos);
  const std::string text = contradiction(file, job({{0, 1, 2}, {3}}));
  EXPECT_NE(text.find("host 0 (h0) has 2 ranks (0-1) in the file, host 0 (real0) has 3 ranks (0-2) in the job"),
            std::string::npos)
      << text;
  EXPECT_NE(contradiction(file, job({{0, 2}, {1, 3}})).find("2 ranks (0-1) in the file"), std::string::npos);
  EXPECT_NE(contradiction({{{"a", {}}, {"b", {}}}, {}, {}, {}, {}}, job({{0}})).find("2 machines"), std::string::npos);
}

TEST(Shortages, CountCoresAndLimits) {
  Topology topology = with_hosts({{0, 1, 2}});
  EXPECT_TRUE(shortages(topology).empty());
  topology.bindings = {{{0, 1}, 0}, {{0, 1}, 0}, {{2}, 0}};
  EXPECT_TRUE(shortages(topology).empty());
  topology.bindings[2].cpus = {1};
  ASSERT_EQ(shortages(topology).size(), 1u);
  EXPECT_NE(shortages(topology)[0].text.find("h0: 3 ranks (0-2) have 2 cores"), std::string::npos);
  topology.bindings[1].cpu_limit = 1.5;
  EXPECT_NE(shortages(topology)[0].text.find("1.5 cores between them (limit of their cgroup)"), std::string::npos);
}

}  // namespace
}  // namespace roda::topology
