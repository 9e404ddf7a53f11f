// Who is where: the job's ranks, grouped into hosts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/bootstrap/host_identity.h"
#include "core/bootstrap/store.h"
#include "core/knobs/knobs.h"
#include "plugins/base/status.h"
#include "plugins/base/wait_policy.h"

namespace roda {

// What one rank says about itself. Unset numbers: the launcher gave none.
struct RankReport {
  HostIdentity host;
  int pid = 0;
  std::string note;  // one word of the caller's
  CoreBudget cores;
  std::optional<int> local_rank, local_size, cross_rank, cross_size;
};

// A value. Hosts are numbered by their lowest rank. The cross group of a local rank is one rank of each host that has
// this local rank.
struct Topology {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int cross_rank = 0;
  int cross_size = 1;
  bool is_homogeneous = true;  // every host has as many ranks
  // No rank of this machine need share a core. Containers are hosts of their own and compete for the same cores.
  bool has_core_each = true;
  std::vector<int> local_ranks;    // world ranks of this host, by local rank
  std::vector<int> cross_ranks;    // world ranks of this rank's cross group, by cross rank
  std::vector<int> host_of;        // by rank: index into hosts
  std::vector<int> local_rank_of;  // by rank
  std::vector<HostIdentity> hosts;
  std::vector<int> pids;  // by rank
  // By rank, of the whole job; empty in a subset.
  std::vector<std::string> notes;   // what each gave to discover
  std::vector<CoreBudget> budgets;  // where each may run

  std::string describe(bool as_json) const;
};

// Pure. The launcher's local and cross numbers win over the order of ranks; where they contradict each other or the
// hosts that the ranks find themselves on, the error names both.
Status compute_topology(const std::vector<RankReport>& reports, int rank, Topology* topology);

// The numbers within some ranks of a topology (ascending, holding `topology.rank`), as for a process set. Ranks count
// from 0 in the order given; local_ranks and cross_ranks hold these new ranks.
Topology subset(const Topology& topology, const std::vector<int>& ranks);

// Every rank of the job calls it, once per prefix. Blocks until all have, at most to the deadline. `note` is a word
// that every rank gets to see; white space ends it.
Status discover(Store& store, int rank, int size, const Knobs& knobs, const std::string& note,
                const std::string& prefix, Store::Clock::time_point deadline, Topology* topology);

}  // namespace roda
