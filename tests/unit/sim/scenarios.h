// Clusters and scenarios for the simulator's tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "algorithms/plan/plan.h"
#include "tools/sim/model/simulate.h"

namespace roda::sim {

// 1 us overhead, 2 us latency, 1 GB/s (1000 bytes a microsecond), additions at 2 GB/s.
inline Cluster one_switch() {
  Cluster cluster;
  cluster.name = "one switch";
  cluster.levels = {{"switch", 0, 2, 1, 1, 1, true, 0}};
  cluster.reduce_GBps = 2;
  cluster.copy_GBps = 4;
  return cluster;
}

// Hosts of `ranks` with one network card, in one network.
inline Cluster hosts_of(int ranks) {
  Cluster cluster;
  cluster.name = "hosts";
  cluster.levels = {{"host", ranks, 0.5, 0.2, 20, 1, true, 0}, {"fabric", 0, 4, 0.7, 12.5, 1, true, 0}};
  return cluster;
}

// The same in racks of `hosts`, whose uplinks carry half of what the hosts could send.
inline Cluster racks_of(int hosts, int ranks) {
  Cluster cluster = hosts_of(ranks);
  cluster.name = "racks";
  cluster.levels[1] = {"rack", hosts, 2, 0.7, 12.5, 1, true, 0};
  cluster.levels.push_back({"fabric", 0, 4, 0.7, 12.5 * hosts / 2, 1, true, 0});
  return cluster;
}

inline Scenario flat(const Cluster& cluster, schedule::Collective collective, const std::string& algorithm, int ranks,
                     double bytes) {
  Scenario scenario;
  scenario.cluster = cluster;
  scenario.plan = {algorithm, collective, {{collective, algorithm, 0}}};
  scenario.grid = plan::flat_grid(ranks);
  scenario.bytes = bytes;
  return scenario;
}

inline Scenario flat_allreduce(const Cluster& cluster, const std::string& algorithm, int ranks, double bytes) {
  return flat(cluster, schedule::Collective::kAllreduce, algorithm, ranks, bytes);
}

inline Outcome outcome_of(const Scenario& scenario, const SimulationOptions& options = {}) {
  Outcome outcome;
  const auto wrong = simulate(scenario, options, &outcome);
  EXPECT_FALSE(wrong) << *wrong;
  return outcome;
}

inline double microseconds(const Scenario& scenario, const SimulationOptions& options = {}) {
  return outcome_of(scenario, options).seconds * 1e6;
}

}  // namespace roda::sim
