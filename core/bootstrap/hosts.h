// Who is where: what the ranks of a job say about themselves, and the hosts that they find themselves on.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/topology/topology.h"
#include "core/bootstrap/store.h"
#include "core/knobs/knobs.h"
#include "plugins/base/status.h"
#include "plugins/base/wait_policy.h"

namespace roda {

// A host is (boot id, host name, network namespace). Two containers on one machine are two hosts; HOROVOD_HOSTNAME lets
// a launcher draw the line elsewhere.
struct HostIdentity {
  std::string boot_id;
  std::string hostname;
  std::uint64_t network_namespace = 0;  // inode; 0 where there is none to ask

  friend auto operator<=>(const HostIdentity&, const HostIdentity&) = default;
};

// `hostname_override` empty: the machine's own name. What can't be read is left empty.
HostIdentity this_host(const std::string& hostname_override);

// The first process that claims a rank keeps it. Any other gets RODA_ERR_PRECONDITION, which names the first, at once,
// and disturbs nobody. A prefix is used once per store. Blocks for a round trip.
Status claim_rank(Store& store, int rank, const HostIdentity& host, const std::string& prefix, Deadline deadline);

// A rank's report of itself. Unset numbers: the launcher gave none. In the table that all get, boots and network
// namespaces are numbers that the job gives them.
struct RankReport {
  HostIdentity host;
  std::string note;  // one word of the caller's
  Store::Ends ends;  // how it reached the store on another host; `here` is for the rank itself alone
  CoreBudget cores;
  std::optional<int> local_rank, local_size, cross_rank, cross_size;
};

// Every rank of the job calls it, once per prefix: *reports, by rank, are equal on all. Blocks until all have, at most
// to the deadline. `note` is a word that every rank gets to see; white space ends it.
Status discover(Store& store, int rank, int size, const Knobs& knobs, const std::string& note,
                const std::string& prefix, Deadline deadline, std::vector<RankReport>* reports);

// The table that every rank gets: what ranks and hosts have in common is said once, so that a host that is as others
// takes some 8 bytes. The reverse is for as many ranks as *reports has; false: it is no such text. Pure.
std::string table_of(const std::vector<RankReport>& reports);
bool reports_of(std::string_view table, std::vector<RankReport>* reports);

// A topology of the job's hosts and its ranks' numbers, without machines. Pure. The launcher's local and cross numbers
// win over the order of ranks; where they contradict each other or the hosts that the ranks find themselves on, the
// error names both.
Status find_hosts(const std::vector<RankReport>& reports, Topology* topology);

// Where other hosts reach the one of `rank`: the address at which its way to the store began; on the store's own host
// those at which others reached it, the addresses of what translates them in between among them. Pure.
std::vector<std::string> known_addresses(const std::vector<RankReport>& reports, int rank);

// Cores that the ranks of the host of `rank` have between them.
int host_cores(const std::vector<RankReport>& reports, const Topology& topology, int rank);

// No rank of the machine that `rank` is on need share a core. Containers are hosts of their own and compete for the
// same cores.
bool has_core_each(const std::vector<RankReport>& reports, const Topology& topology, int rank);

}  // namespace roda
