// How long a training step takes on more GPUs than anybody here owns.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "tools/sim/candidates.h"

namespace roda::simtool {

// One number of GPUs.
struct TrainingPoint {
  std::int32_t gpus = 0;
  double compute_s = 0;  // of one GPU by itself
  double step_s = 0;
  int buckets = 0;
  std::string runs;  // a large bucket

  double efficiency() const { return compute_s / step_s; }
};
nlohmann::json json_of(const TrainingPoint& point);

// The file's; where none is named hosts of 8 GPUs, each with a card of 200 Gbit/s, on one switch.
sim::Cluster training_cluster(const std::string& path);

// The model of `options` on the cluster; assumptions that belong to them are added to *assumptions.
std::vector<TrainingPoint> training_points(const CommandLine& options, const sim::Cluster& cluster,
                                           std::vector<std::string>* assumptions);

// Prints assumptions and points. Returns the exit code.
int train(const CommandLine& options);

}  // namespace roda::simtool
