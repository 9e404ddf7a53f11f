// What is compared: algorithms and plans by name, as scenarios; and their outcomes.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/sim/model/control.h"
#include "tools/sim/model/simulate.h"
#include "tools/sim/options.h"

namespace roda::simtool {

// What the user asked for can't be had; the text says why.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string read_file(const std::string& path);
sim::Cluster load_cluster(const std::string& path);  // one switch when empty

// "ring", "hierarchical", "hierarchical:ring/double_binary_tree/ring", "torus:..."
sim::Scenario scenario_of(const sim::Cluster& cluster, schedule::Collective collective, const std::string& name,
                          std::int32_t ranks, double bytes);

// How a control plane's messages cost on that cluster: hosts are the units below its last level.
sim::ControlOptions control_options(const sim::Cluster& cluster, std::int32_t ranks);

std::vector<std::string> default_candidates(schedule::Collective collective);

// One point: what was asked, and what came out of it.
struct Row {
  std::string name;
  std::int32_t ranks = 0;
  double bytes = 0;
  double slice_bytes = 0;  // that was used; 0: whole
  sim::Outcome outcome;
  std::string refused;  // why there is no outcome
};

// In the executor's slices; of `slices`, where there are any, the fastest is kept (0: whole). Of what `options` say
// tracing and limits count, and `in_flight`, where it is not 0.
Row simulate(const sim::Scenario& scenario, const std::string& name, const sim::SimulationOptions& options,
             const std::vector<double>& slices = {}, std::int32_t in_flight = 0);

}  // namespace roda::simtool
