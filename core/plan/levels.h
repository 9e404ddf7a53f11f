// The levels that compositions go by: which ranks share a cache, a package, a host, a rack.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/topology/cluster.h"
#include "plugins/base/status.h"

namespace roda::engine {

// A value. Levels from the inside out, each unit inside one unit of the next level.
struct Levels {
  std::vector<std::string> names;                // "package", "host", "rack"
  std::vector<std::vector<std::int32_t>> units;  // [level][rank]: the unit's number
  std::size_t host = 0;                          // which of them is the host
};

// By hosts alone.
Levels host_levels(const std::vector<int>& host_of);

// RODA_LEVELS: names from the inside out, separated by commas; "host" must be among them. cache, numa, package and host
// are the topology's; NAME=N makes a unit of N units of the level below (of ranks, for the first). "auto": whatever the
// topology tells. Fails, naming the level, where the topology does not tell it, or units of one lie in two of the next.
Status find_levels(const std::string& text, const topology::Cluster& cluster, Levels* levels);

// Of some of the ranks, in the order given.
Levels subset(const Levels& levels, const std::vector<std::int32_t>& ranks);

}  // namespace roda::engine
