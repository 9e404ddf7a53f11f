// Clusters as text: JSON, in the words of sim/cluster.h; docs/notes/simulator.md describes the format.
#pragma once

#include <optional>
#include <string>

#include "algorithms/schedule/sim/cluster.h"

namespace roda::text {

// nullopt: *cluster is filled in and right. Else what is wrong, and where.
std::optional<std::string> read_cluster(const std::string& text, sim::Cluster* cluster);

}  // namespace roda::text
