// From what each rank sees to one topology of the job, the same on every rank.
#pragma once

#include <optional>
#include <string>

#include "core/bootstrap/hosts.h"
#include "core/bootstrap/store.h"
#include "core/topology/discover_machine.h"

namespace roda::topology {

constexpr std::size_t kMostShapes = 64;  // kinds of machine that a job exchanges; the rest stay unknown
static_assert(Store::kMaxValue >= 64 * 1024);

// What one rank brings along.
struct View {
  Machine machine;
  std::optional<Topology> file;  // RODA_TOPOLOGY_FILE; the machine is then not looked at
};

// Leaves cores and caches out of a description that would not fit a value of the store, or everything; `absent` says
// so.
void shorten(Machine* machine);

// Looks at this machine, or reads the file that the settings name. Fails only for that file.
Status look(const Knobs& knobs, const DiscoverOptions& options, View* view);

// One word: the hash of what the rank sees. It travels in the round that finds the hosts.
std::string note_of(const View& view);

// Collective. `topology` comes with the job's hosts and numbers (find_hosts) and gets its machines and bindings;
// `reports` hold every rank's note and budget. Machines of one shape travel once, and only to those who see another: a
// job on machines of one kind sends nothing. Ranks of one host whose views contradict each other (see contradiction())
// are an error of every rank of the job, which names them and the difference; what else differs is a warning of the
// host's ranks, and the lowest rank's view counts. Files must be equal on all ranks and agree with the job: an error
// names the ranks, or the contradiction, on every rank. Blocks, at most to the deadline. Keys stay below
// "<prefix>/"; a prefix is used once per store.
Status share(Store& store, int rank, const std::vector<RankReport>& reports, const View& mine,
             const std::string& prefix, Deadline deadline, Topology* topology);

// This process alone, before a job.
Topology alone(const View& view, const std::string& hostname);

// A host on which ranks outnumber the cores that they may use.
struct Shortage {
  std::vector<int> ranks;  // of the host
  bool is_limit = false;   // because of a limit of their cgroup: there are cores enough
  std::string text;        // one sentence
};
std::vector<Shortage> shortages(const Topology& topology);

}  // namespace roda::topology
