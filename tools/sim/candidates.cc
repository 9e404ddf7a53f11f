#include "tools/sim/candidates.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "algorithms/plan/plan.h"
#include "algorithms/schedule/format.h"

namespace roda::simtool {
namespace {

plan::Grid grid_of(const Topology& topology) {
  return topology.levels.empty() ? plan::flat_grid(topology.size()) : plan::nested_grid(topology.levels);
}

// "ring/double_binary_tree/ring", each with or without a wire format behind it: "direct/ordered/int8/direct".
plan::Choice parse_choice(const std::string& text) {
  std::vector<std::string> names;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, '/');) {
    if (!names.empty() && schedule::find_format(part)) {
      names.back() += "/" + part;
    } else {
      names.push_back(part);
    }
  }
  if (names.size() != 3)
    throw Failure(text + ": give reduce-scatter/allreduce/allgather, as in ring/rabenseifner/ring");
  return {names[0], names[1], names[2]};
}

void compose(const std::string& kind, schedule::Collective collective, const plan::Choice& choice, std::int32_t ranks,
             sim::Scenario* scenario) {
  if (kind == "hierarchical") {
    scenario->grid = grid_of(sim::lay_out(scenario->cluster, ranks));
    scenario->plan = plan::hierarchical(collective, scenario->grid, {choice});
  } else if (kind == "torus" && collective == schedule::Collective::kAllreduce) {
    scenario->grid = plan::torus_grid(plan::even_dims(ranks));
    scenario->plan = plan::torus(scenario->grid, {choice});
  } else {
    throw Failure("there is no plan " + kind + " of " + schedule::collective_name(collective) +
                  ": hierarchical is, and torus of allreduce");
  }
}

}  // namespace

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Failure(path + ": can't be read");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

sim::Cluster load_cluster(const std::string& path) {
  sim::Cluster cluster;
  if (path.empty()) {
    cluster.name = "one switch";
    cluster.levels = {{"switch", 0, 5, 1, 12.5, 1, true, 0}};
    return cluster;
  }
  if (auto wrong = sim::read_cluster(read_file(path), &cluster)) throw Failure(path + ": " + *wrong);
  return cluster;
}

sim::Scenario scenario_of(const sim::Cluster& cluster, schedule::Collective collective, const std::string& name,
                          std::int32_t ranks, double bytes) {
  sim::Scenario scenario;
  scenario.cluster = cluster;
  scenario.bytes = bytes;
  if (auto wrong = sim::why_no_room(cluster, ranks)) throw Failure(*wrong);
  const std::size_t colon = name.find(':');
  const std::string kind = name.substr(0, colon);
  if (kind == "hierarchical" || kind == "torus" || colon != std::string::npos) {
    const plan::Choice choice = colon == std::string::npos ? plan::Choice{} : parse_choice(name.substr(colon + 1));
    if (collective == schedule::Collective::kBarrier) throw Failure(name + ": a barrier is not composed of stages");
    compose(kind, collective, choice, ranks, &scenario);
    if (scenario.plan.stages.size() > plan::kMostStages) {
      throw Failure(name + ": a plan has at most " + std::to_string(plan::kMostStages) + " stages");
    }
    return scenario;
  }
  if (schedule::find_algorithm(collective, name) == nullptr) {
    throw Failure(std::string("there is no algorithm ") + schedule::collective_name(collective) + "/" + name);
  }
  scenario.plan = {name, collective, {{collective, name, 0}}};
  scenario.grid = plan::flat_grid(ranks);
  return scenario;
}

sim::ControlOptions control_options(const sim::Cluster& cluster, std::int32_t ranks) {
  sim::ControlOptions options;
  options.ranks = ranks;
  const std::int32_t members = cluster.levels.front().members;
  options.ranks_per_host = cluster.levels.size() > 1 && members > 0 ? members : 1;
  options.overhead_us = cluster.levels.back().overhead_us;
  options.latency_us = cluster.levels.back().latency_us;
  return options;
}

std::vector<std::string> default_candidates(schedule::Collective collective) {
  std::vector<std::string> names;
  for (const schedule::Algorithm* algorithm : schedule::algorithms()) {
    const bool by_messages = (algorithm->needs & ~schedule::kNeedsMessages) == 0;
    if (algorithm->collective == collective && by_messages) names.push_back(algorithm->name);
  }
  if (collective != schedule::Collective::kBarrier) names.emplace_back("hierarchical");
  if (collective == schedule::Collective::kAllreduce) names.emplace_back("torus");
  return names;
}

Row simulate(const sim::Scenario& scenario, const std::string& name, const sim::SimulationOptions& options,
             const std::vector<double>& slices, std::int32_t in_flight) {
  sim::SimulationOptions with = sim::executed(scenario, options);
  if (in_flight > 0) with.in_flight = in_flight;
  Row best;
  best.name = name;
  best.bytes = scenario.bytes;
  bool found = false;
  for (const double slice : slices.empty() ? std::vector<double>{with.slice_bytes} : slices) {
    const bool is_whole_too = slices.size() > 1 && slice > 0 && slice >= scenario.bytes;
    if (is_whole_too) continue;
    with.slice_bytes = slice;
    sim::Outcome outcome;
    if (auto wrong = sim::simulate(scenario, with, &outcome)) {
      best.refused = *wrong;
      continue;
    }
    if (found && outcome.seconds >= best.outcome.seconds) continue;
    best.outcome = std::move(outcome);
    best.slice_bytes = slice;
    found = true;
  }
  if (found) best.refused.clear();
  best.ranks =
      scenario.schedules.empty() ? scenario.grid.ranks() : static_cast<std::int32_t>(scenario.schedules.size());
  return best;
}

}  // namespace roda::simtool
