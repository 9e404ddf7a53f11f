// Where a job's links are from: a file, what was measured now or by an earlier job, or assumptions.
#pragma once

#include <cstdint>
#include <string>

#include "core/bootstrap/store.h"
#include "core/bootstrap/topology.h"
#include "core/engine/links.h"
#include "core/engine/planner.h"
#include "core/knobs/knobs.h"
#include "core/topology/cluster.h"

namespace roda::engine {

// RODA_LINKS or assumptions, without looking at anything else. The error is the file's.
Status given_links(const Knobs& knobs, const topology::Cluster& cluster, Links* links);

// What the search goes by: equal on all ranks but for `topology.rank`. Lives during the call.
struct LinkSearch {
  const Knobs& knobs;
  const Topology& topology;
  const Planner& planner;  // says which transports would carry what
  const roda_host* host;
  Store& store;
  std::string prefix;  // of keys; used once per store
  std::uint64_t generation;
  Store::Clock::time_point deadline;
};

// Collective over the job's ranks, once they agree in their settings. *links is what given_links() said, and stays so
// where RODA_LINKS is given, RODA_MEASURE_LINKS says never, or the job has one rank. Else rank 0 looks into its user's
// cache for each of the job's link_wishes(); what that lacks is measured by the two ranks it concerns (try_link), and
// kept. Every rank gets rank 0's figures, to the bit. What can't be measured (a transport that can't be abandoned, no
// answer within a second, figures that contradict each other) stays assumed, and no job ends for it; that it failed is
// kept for some minutes, in which it is not tried again. Blocks.
Status find_links(const LinkSearch& search, Links* links);

// What a job of two ranks on this host would find in the cache; measures nothing. For a process without a job.
void look_up_links(const Knobs& knobs, const Planner& planner, Links* links);

}  // namespace roda::engine
