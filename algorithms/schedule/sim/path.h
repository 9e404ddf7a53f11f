// The critical path of a run in the words of its schedules.
#pragma once

#include <vector>

#include "algorithms/schedule/sim/simulate.h"
#include "algorithms/schedule/sim/trace.h"

namespace roda::sim {

std::vector<PathStep> path_steps(const Trace& trace, const Actors& actors, const Cluster& cluster);

// Where the path's time went: "wire fabric", "recv_reduce", ...; "waits" is what lies between its steps.
struct PathShare {
  std::string what;
  double us = 0;
};
std::vector<PathShare> path_shares(const std::vector<PathStep>& path);

}  // namespace roda::sim
