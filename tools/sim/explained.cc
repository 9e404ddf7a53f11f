#include "tools/sim/explained.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/select/table.h"
#include "tools/common/names.h"

namespace roda::simtool {
namespace {

using nlohmann::json;
using schedule::Collective;

// The most steps of a prediction: about a second of one core.
constexpr double kMostSteps = 5e6;

// Figures of an ordinary machine: ranks of one host over a transport that serves one host alone, and over one that
// serves all; and the network of one host's interface, 10 Gbit/s Ethernet.
const sim::Level kMemory{topology::kHost, 1, 0.3, 0.2, 8};
const sim::Level kLoopback{topology::kHost, 1, 12, 6, 3};
const sim::Level kNetwork{"network", 0, 30, 8, 1.25};
constexpr double kInfiniBandLatency = 1.5, kInfiniBandOverhead = 0.3;
constexpr double kReduceGBps = 6, kCopyGBps = 10;  // of one rank

Collective collective_of(const json& name) { return static_cast<Collective>(tools::parse_collective(name).value()); }

std::vector<topology::Level> levels_of(const json& told) {
  std::vector<topology::Level> levels;
  for (const json& level : told.value("levels", json::array())) {
    auto& units = levels.emplace_back(topology::Level{level["name"], {}}).units;
    for (const json& run : level["units"]) units.insert(units.end(), run[1].get<std::size_t>(), run[0]);
  }
  if (levels.empty()) levels.push_back({topology::kHost, std::vector<std::int32_t>(told["ranks"].get<std::size_t>())});
  return levels;
}

std::vector<std::int32_t> host_of(const json& told) {
  std::vector<topology::Level> levels = levels_of(told);
  return std::move(levels[topology::host_level(levels)].units);
}

plan::Grid grid_of(const std::string& composition, const json& told) {
  if (composition != "torus" && composition != "between_hosts") return plan::nested_grid(levels_of(told));
  plan::Grid by_host = plan::nested_grid({{topology::kHost, host_of(told)}});
  return composition == "torus" ? plan::torus_of_hosts(by_host) : std::move(by_host);
}

// The ranks on their hosts, which the network joins where there are several.
Topology hosts_of(const json& told) {
  const std::vector<std::int32_t> units = host_of(told);
  Topology topology;
  for (std::size_t rank = 0; rank < units.size(); ++rank) {
    const auto host = static_cast<std::size_t>(units[rank]);
    if (host >= topology.hosts.size()) topology.hosts.resize(host + 1);
    topology.hosts[host].ranks.push_back(static_cast<int>(rank));
  }
  place_ranks(&topology);
  if (topology.hosts.size() == 1) topology.levels.clear();
  return topology;
}

// Whether messages travel inside hosts: one end copies every byte in and the other out, and a rank that sends and
// receives at a time has one processor for both directions. What reads its peer's memory leaves the peer alone.
bool copies_inside(const sim::Scenario& scenario) {
  return std::ranges::any_of(scenario.plan.stages, [&](const plan::Stage& stage) {
    const bool leaves_host = scenario.plan.stages.size() > 1 && scenario.grid.hosts(stage.axis) > 1;
    const schedule::Algorithm* algorithm = schedule::find_algorithm(stage.collective, stage.algorithm);
    return !leaves_host && (algorithm->needs & schedule::kNeedsMessages) != 0;
  });
}

sim::Cluster cluster_of(const json& told, const json& stages, const sim::Scenario& scenario) {
  const bool is_near = stages.front()["serves_one_host"] || stages.back()["serves_one_host"];
  sim::Cluster cluster{"job", {is_near ? kMemory : kLoopback}, kReduceGBps, kCopyGBps, {}};
  if (copies_inside(scenario)) {
    sim::Level& inside = cluster.levels.front();
    inside.full_duplex = false;
    inside.GBps = std::min(inside.GBps, kCopyGBps / 2);
  }
  if (scenario.topology.hosts.size() < 2) return cluster;
  sim::Level& network = cluster.levels.emplace_back(kNetwork);
  if (told["network"].is_null()) return cluster;
  network.GBps = told["network"]["Gbit_s"].get<double>() / 8;
  if (told["network"]["is_infiniband"]) {
    network.latency_us = kInfiniBandLatency;
    network.overhead_us = kInfiniBandOverhead;
  }
  return cluster;
}

json prediction_of(const json& told, const json& candidate) {
  std::optional<sim::Scenario> scenario = scenario_of(told, candidate, candidate["stages"]);
  if (!scenario) return nullptr;
  scenario->topology = hosts_of(told);
  scenario->cluster = cluster_of(told, candidate["stages"], *scenario);
  sim::SimulationOptions options = sim::executed(*scenario);
  options.most_steps = kMostSteps;
  sim::Outcome outcome;
  if (sim::simulate(*scenario, options, &outcome)) return nullptr;
  double inside = 0, between = 0;
  for (const sim::LevelTraffic& traffic : outcome.levels) {
    (traffic.name == kNetwork.name ? between : inside) += traffic.bytes;
  }
  return {{"seconds", outcome.seconds}, {"bytes_inside_hosts", inside}, {"bytes_between_hosts", between}};
}

}  // namespace

std::optional<sim::Scenario> scenario_of(const json& told, const json& option, const json& stages) {
  sim::Scenario scenario;
  const std::string name = option["algorithm"];
  scenario.bytes = told["bytes"];
  scenario.plan = {name, collective_of(told["collective"]), {}};
  for (const json& stage : stages) {
    const Collective collective = collective_of(stage["collective"]);
    const std::string algorithm = stage["algorithm"];
    if (schedule::find_algorithm(collective, algorithm) == nullptr) return std::nullopt;
    scenario.plan.stages.push_back({collective, algorithm, stage.value("axis", 0)});
  }
  const bool is_composed = option["transport"] == select::kLevels;
  scenario.grid = is_composed ? grid_of(name, told) : plan::flat_grid(told["ranks"]);
  return scenario;
}

void predict(json* told) {
  if ((*told)["memory"] != "host" || (*told)["ranks"] < 2) return;
  for (json& candidate : (*told)["candidates"]) {
    json predicted = candidate["usable"] ? prediction_of(*told, candidate) : json();
    if (predicted.is_null()) continue;
    candidate["predicted"] = std::move(predicted);
    if (!candidate["chosen"]) continue;
    const bool is_known = !(*told)["network"].is_null();
    (*told)["links"] = is_known ? "assumed; the network's bandwidth as its interfaces tell it" : "assumed";
  }
}

}  // namespace roda::simtool
