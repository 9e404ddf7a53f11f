// A topology as text for people.
#pragma once

#include <cstdint>
#include <string>

#include "algorithms/topology/topology.h"

namespace roda::topology {

// A tree: hosts with their ranks, then each machine. Hosts of one name are told apart by their place.
std::string print(const Topology& topology);

// "rank 1 of 4, local 1 of 2, cross 0 of 2, homogeneous", a line.
std::string print_rank(const Topology& topology, int rank);

// "105 MiB", "48 KiB".
std::string size_text(std::int64_t kib);

}  // namespace roda::topology
