// How ranks come to lie on machines, and which levels of units divide them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/topology/topology.h"
#include "plugins/base/status.h"

namespace roda::topology {

// Ranks that the machine is usually given: one per GPU, or else one per core; at least 1.
int natural_ranks(const Machine& machine);

// Lays `ranks` ranks (0: as many as one takes) out on as many hosts of the file's only machine as they need,
// natural_ranks on each; the last host may have fewer. A file that has hosts is taken as it is; `ranks` that is neither
// 0 nor its own size is an error that names both.
Status lay_out(const Topology& file, int ranks, Topology* result);

// Puts a file's machines in the place of what a job discovered; the job has its hosts and its ranks' numbers. A file
// without hosts stands for each host of the job, and must then describe one machine; one with hosts must agree in their
// number and the ranks of each. The error names the contradiction. Bindings are the file's, or none: the job's own hold
// on machines that the file replaces.
Status fit(const Topology& file, Topology* job);

// By rank: the cache, NUMA node or package ("cache", "numa", "package") that it is bound to, numbered by their lowest
// ranks. Empty when some rank is bound to no one of them, so that the level says nothing about this job.
std::vector<std::int32_t> bound_units(const Topology& topology, const std::string& level);

// RODA_LEVELS: names from the inside out, separated by commas; "host" must be among them. cache, numa, package and host
// are the topology's; NAME=N makes a unit of N units of the level below (of ranks, for the first). "auto": whatever the
// topology tells. "": hosts alone. Fails, naming the level, where the topology does not tell it, or units of one lie in
// two of the next.
Status find_levels(const std::string& text, Topology* topology);

}  // namespace roda::topology
