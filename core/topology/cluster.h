// The topology of a job: which machine each host is, which ranks run there, and on what part of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/topology/machine.h"
#include "plugins/base/status.h"

namespace roda::topology {

struct NamedMachine {
  std::string name;
  Machine machine;

  friend bool operator==(const NamedMachine&, const NamedMachine&) = default;
};

struct Host {
  std::string name;
  std::string place;       // tells hosts of one name apart: boot id and network namespace; "" in a file
  int machine = 0;         // index into the cluster's machines
  std::vector<int> ranks;  // ascending

  friend bool operator==(const Host&, const Host&) = default;
};

// Where one rank may run.
struct Binding {
  CpuSet cpus;           // empty: unknown
  double cpu_limit = 0;  // cores' worth of time that its cgroup grants; 0: no limit

  friend bool operator==(const Binding&, const Binding&) = default;
};

// A value. Without hosts it describes machines only.
struct Cluster {
  std::vector<NamedMachine> machines;
  std::vector<Host> hosts;
  std::vector<Binding> bindings;  // by rank, or empty: none is known

  int size() const;                  // ranks of all hosts
  std::vector<int> host_of() const;  // by rank: index into hosts
  friend bool operator==(const Cluster&, const Cluster&) = default;
};

// Nested places, innermost first.
enum class Level : std::uint8_t { kCache, kNumaNode, kPackage, kHost };
const char* level_name(Level level);

// The ranks by place of that level, places in order of their lowest rank. Empty when some rank is bound to no one place
// of the level, so that the level says nothing about this job. kHost always says something.
std::vector<std::vector<int>> groups(const Cluster& cluster, Level level);

// Ranks that the machine is usually given: one per GPU, or else one per core; at least 1.
int natural_ranks(const Machine& machine);

// Lays `ranks` ranks out on as many hosts of the cluster's first machine as they need, `per_host` on each (0:
// natural_ranks), the last host may have fewer. A cluster that has hosts is taken as it is; `ranks` that is neither 0
// nor its own size, or a `per_host` beside its hosts, is an error that names both.
Status lay_out(const Cluster& cluster, int ranks, int per_host, Cluster* result);

// What a job found out about itself, for comparison with a file.
struct Found {
  std::vector<Host> hosts;  // names, places and ranks; `machine` is not read
};

// A file's topology put in the place of what a job discovered. A file without hosts stands for each host of the job,
// and must then describe one machine; one with hosts must agree in their number and the ranks of each. The error names
// the contradiction. Names and places of hosts are the job's. Bindings are the file's, or none: the job's own hold on
// machines that the file replaces.
Status fit(const Cluster& file, const Found& job, Cluster* result);

}  // namespace roda::topology
