// The model of NCCL and of compositions around it: what bounds it, and where one is faster than the other.
#include "algorithms/schedule/sim/gpus.h"

#include <gtest/gtest.h>

namespace roda::sim {
namespace {

using schedule::Collective;

constexpr double kKilo = 1 << 10, kMega = 1 << 20, kGiga = 1 << 30;

// As examples/clusters/h100_hosts.json, with so many cards of 50 GB/s to a host.
Cluster h100(std::int32_t cards) {
  Cluster cluster;
  cluster.name = "H100";
  cluster.levels = {{"host", 8, 1, 0.3, 370}, {"network", 0, 2.5, 0.5, 50, cards}};
  cluster.copy_GBps = 12;
  cluster.gpus = {50, 10};
  return cluster;
}

Scenario scenario(const Cluster& cluster, std::int32_t hosts, double bytes) {
  Scenario all;
  all.cluster = cluster;
  all.bytes = bytes;
  all.grid = plan::flat_grid(hosts * 8);
  all.plan = {"native", Collective::kAllreduce, {{Collective::kAllreduce, "native", 0}}};
  return all;
}

Scenario composed(const Cluster& cluster, std::int32_t hosts, double bytes) {
  Scenario all = scenario(cluster, hosts, bytes);
  all.grid = plan::nested_grid(lay_out(cluster, hosts * 8).levels);
  all.plan = plan::hierarchical(Collective::kAllreduce, all.grid, {plan::Choice{"native", "rabenseifner", "native"}});
  return all;
}

double seconds(const Scenario& all) {
  Outcome outcome;
  EXPECT_EQ(simulate(all, executed(all), &outcome), std::nullopt);
  return outcome.seconds;
}

TEST(Gpus, TheLibraryIsBoundByItsSlowestLinks) {
  for (const std::int32_t cards : {1, 8}) {
    const double bytes = 4 * kGiga, sent = bytes * 2 * 63 / 64;
    const double rate = std::min(370.0, 50.0 * cards) * 1e9;
    const double time = seconds(scenario(h100(cards), 8, bytes));
    EXPECT_GE(time, sent / rate);
    EXPECT_LE(time, sent / rate * 1.1);
  }
  EXPECT_GT(seconds(scenario(h100(8), 64, 64)), seconds(scenario(h100(8), 2, 64))) << "more hops";
  EXPECT_EQ(library_seconds(h100(8), Collective::kAllgather, 1, 1, kMega), 0);
}

TEST(Gpus, ACompositionSendsEveryByteOnceOverTheCards) {
  const double bytes = 4 * kGiga, sent = bytes * 2 * 7 / 8;
  const double time = seconds(composed(h100(1), 8, bytes));
  EXPECT_GE(time, sent / 50e9);
  EXPECT_LE(time, sent / 50e9 * 1.1) << "copies and what is inside hosts are hidden";
}

TEST(Gpus, CopiesThatAreSlowerThanAllElseDecide) {
  Cluster cluster = h100(1);
  cluster.gpus->copy_GBps = 2;
  EXPECT_GE(seconds(composed(cluster, 8, kGiga)), kGiga / 8 / 2e9);
}

// What the engine selects by: composer.h, defaults.cc.
TEST(Gpus, ACompositionIsFasterForLargeDataWhereGpusShareACard) {
  const auto ratio = [](std::int32_t cards, std::int32_t hosts, double bytes) {
    return seconds(composed(h100(cards), hosts, bytes)) / seconds(scenario(h100(cards), hosts, bytes));
  };
  for (const double bytes : {64 * kKilo, kMega, 32 * kMega, kGiga}) {
    for (const std::int32_t hosts : {2, 8, 64}) EXPECT_GT(ratio(8, hosts, bytes), 1) << hosts << " " << bytes;
  }
  for (const double bytes : {32 * kMega, 256 * kMega, kGiga}) {
    for (const std::int32_t hosts : {4, 8, 64}) EXPECT_LT(ratio(1, hosts, bytes), 0.99) << hosts << " " << bytes;
  }
  for (const std::int32_t hosts : {4, 8, 64}) EXPECT_GT(ratio(1, hosts, 4 * kMega), 1) << hosts;
}

TEST(Gpus, WhatIsNotKnownIsRefused) {
  Outcome outcome;
  const auto wrong = [&](const Scenario& all) { return simulate(all, executed(all), &outcome).value_or("right"); };
  Scenario all = composed(h100(1), 8, kMega);
  all.cluster.gpus.reset();
  EXPECT_EQ(wrong(all), "the cluster has no \"gpus\": what a library does there is not known");
  all = composed(h100(1), 8, kMega);
  all.plan.stages[2].algorithm = "ring";
  EXPECT_EQ(wrong(all), "known are a library's collectives alone, and inside hosts with an algorithm between them");
  all = scenario(h100(1), 8, kMega);
  all.cluster.gpus->copy_GBps = 0;
  EXPECT_EQ(wrong(all), "gpus: copy_GBps must be positive, copy_us at least 0");
}

}  // namespace
}  // namespace roda::sim
