#include "core/plan/explain.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "algorithms/plan/plan.h"
#include "algorithms/schedule/sim/simulate.h"

namespace roda::engine {
namespace {

constexpr double kMostSteps = 5e6;
constexpr double kInfiniBandLatency = 1.5, kInfiniBandOverhead = 0.3;

// Gbit/s of the fastest network device of the machine, and whether it is InfiniBand.
std::pair<double, bool> fastest_device(const topology::Machine& machine) {
  std::pair<double, bool> fastest{0, false};
  for (const topology::Nic& nic : machine.nics) {
    if (nic.is_up && nic.speed_mbit > 0) fastest = std::max(fastest, {nic.speed_mbit / 1e3, false});
  }
  for (const topology::RdmaDevice& device : machine.rdma_devices) {
    for (const topology::RdmaPort& port : device.ports) {
      if (port.is_active) fastest = std::max(fastest, {port.rate_mbit / 1e3, port.link_layer == "InfiniBand"});
    }
  }
  return fastest;
}

// The ranks on their hosts; the network, where there are several, joins these.
Topology hosts_of(const PlanQuery& q) {
  Topology topology;
  std::vector<std::vector<int>> table(1);
  for (int rank = 0; rank < q.size; ++rank) table.front().push_back(rank);
  if (q.shape != nullptr) table = q.shape->table();
  for (const auto& host : table) topology.hosts.push_back({"", "", 0, host});
  place_ranks(&topology);
  if (table.size() == 1) topology.levels.clear();
  return topology;
}

// Whether what runs inside hosts is a transport that reaches no further.
bool is_near(const Plan& plan) {
  return (plan.stages.front().transport->capabilities & RODA_CAP_SAME_HOST) != 0 ||
         (plan.stages.back().transport->capabilities & RODA_CAP_SAME_HOST) != 0;
}

// Whether messages travel inside hosts: both ends then copy every byte, and a rank that sends and receives at a time
// has one processor for both directions. What reads its peer's memory leaves the peer alone.
bool copies_inside(const Plan& plan, const PlanQuery& q) {
  for (std::size_t number = 0; number < plan.stages.size(); ++number) {
    const PlanStage& stage = plan.stages[number];
    const std::int32_t axis = plan.is_composed() ? plan.composition.stages[number].axis : 0;
    if (plan.is_composed() && q.shape->grid(plan.composition.name).hosts(axis) > 1) continue;
    if ((stage.algorithm->needs & schedule::kNeedsMessages) != 0) return true;
  }
  return false;
}

sim::Scenario scenario_of(const Plan& plan, const PlanQuery& q, const Links& links) {
  sim::Scenario scenario;
  scenario.topology = hosts_of(q);
  scenario.cluster.name = "job";
  scenario.cluster.reduce_GBps = links.reduce_GBps;
  scenario.cluster.copy_GBps = links.copy_GBps;
  scenario.cluster.levels = {is_near(plan) ? links.memory : links.loopback};
  scenario.cluster.levels.front().full_duplex = !copies_inside(plan, q);
  if (scenario.topology.hosts.size() > 1) scenario.cluster.levels.push_back(links.network);
  scenario.bytes = static_cast<double>(q.bytes);
  if (plan.is_composed()) {
    scenario.plan = plan.composition;
    scenario.grid = q.shape->grid(plan.composition.name);
  } else {
    const auto collective = static_cast<schedule::Collective>(q.collective);
    const char* name = plan.stages.front().algorithm_name();
    scenario.plan = {name, collective, {{collective, name, 0}}};
    scenario.grid = plan::flat_grid(q.size);
  }
  return scenario;
}

}  // namespace

Links links_of(const Topology& topology) {
  Links links;
  std::optional<std::pair<double, bool>> slowest;
  for (const topology::Host& host : topology.hosts) {
    const auto fastest = fastest_device(topology.machines[static_cast<std::size_t>(host.machine)].machine);
    if (fastest.first > 0) slowest = slowest ? std::min(*slowest, fastest) : fastest;
  }
  if (topology.hosts.size() < 2 || !slowest) return links;
  links.network.GBps = slowest->first / 8;
  if (slowest->second) {
    links.network.latency_us = kInfiniBandLatency;
    links.network.overhead_us = kInfiniBandOverhead;
  }
  links.source = "assumed; the network's bandwidth as its interfaces tell it";
  return links;
}

std::optional<Prediction> predict(const Plan& plan, const PlanQuery& q, const Links& links) {
  if (q.size < 2 || plan.stages.empty()) return std::nullopt;
  for (const PlanStage& stage : plan.stages) {
    if (stage.algorithm == nullptr) return std::nullopt;
  }
  const sim::Scenario scenario = scenario_of(plan, q, links);
  sim::Options options = sim::executed(scenario);
  options.most_steps = kMostSteps;
  sim::Outcome outcome;
  if (sim::simulate(scenario, options, &outcome)) return std::nullopt;
  Prediction cost;
  cost.seconds = outcome.seconds;
  for (const sim::LevelTraffic& traffic : outcome.levels) {
    (traffic.name == "network" ? cost.between_bytes : cost.inside_bytes) += traffic.bytes;
  }
  return cost;
}

}  // namespace roda::engine
