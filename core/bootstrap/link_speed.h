// How fast the network between the job's hosts is, measured while they meet: each rank sends to its counterpart on the
// next host what it gets from the one before, all at once, as collectives between hosts do.
#pragma once

#include <string>

#include "algorithms/topology/link.h"
#include "algorithms/topology/topology.h"
#include "core/bootstrap/store.h"

namespace roda {

struct LinkOptions {
  std::string key;      // its keys stay below it; once per store
  std::string address;  // where other hosts reach this one
  int cores = 1;        // that this host's ranks have between them
  Deadline deadline;
};

// Collective over the ranks of several hosts; blocks for about a tenth of a second on a link of 1 Gbit/s, and for a few
// seconds at most. *link is equal on all ranks: of the slowest host, and of the fewest cores. Where a rank could not
// measure, it is not known, for the reason of the lowest such rank, and that is no error.
Status measure_link(Store& store, const Topology& topology, int rank, const LinkOptions& options, topology::Link* link);

}  // namespace roda
