// Where the ranks are: the one map of them.
//
// Built once, equal on all ranks: by a job's ranks when they meet (core/bootstrap, core/topology), from a file, or laid
// out for ranks that nobody started. It is printed, simulated, planned over and passed by const reference; whatever
// else somebody wants to know is a question to it.
//
// A plain value; any thread. Without hosts it describes machines only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/topology/machine.h"

namespace roda {

namespace topology {

struct NamedMachine {
  std::string name;
  Machine machine;

  friend bool operator==(const NamedMachine&, const NamedMachine&) = default;
};

struct Host {
  std::string name;
  std::string place;       // tells hosts of one name apart: boot id and network namespace; "" in a file
  int machine = 0;         // index into the topology's machines
  std::vector<int> ranks;  // ascending

  friend bool operator==(const Host&, const Host&) = default;
};

// Where one rank may run.
struct Binding {
  CpuSet cpus;           // empty: unknown
  double cpu_limit = 0;  // cores' worth of time that its cgroup grants; 0: no limit

  friend bool operator==(const Binding&, const Binding&) = default;
};

// The numbers of one rank. The cross group of a local rank is one rank of each host that has this local rank.
struct Numbers {
  int host = 0;  // index into the topology's hosts
  int local_rank = 0;
  int cross_rank = 0;

  friend bool operator==(const Numbers&, const Numbers&) = default;
};

// The unit of one kind that each rank is in: its package, its host, its rack.
struct Level {
  std::string name;
  std::vector<std::int32_t> units;  // [rank]

  friend bool operator==(const Level&, const Level&) = default;
};

inline constexpr const char* kHost = "host";

// Which of the levels is the host's.
std::size_t host_level(const std::vector<Level>& levels);

}  // namespace topology

struct Topology {
  std::vector<topology::NamedMachine> machines;
  std::vector<topology::Host> hosts;        // by their lowest ranks
  std::vector<topology::Binding> bindings;  // by rank, or empty: none is known
  // By rank. Numbers and levels follow from the hosts (place_ranks) where no launcher and no RODA_LEVELS says more.
  std::vector<topology::Numbers> numbers;
  std::vector<topology::Level> levels;  // from the inside out, each unit inside one unit of the next

  int size() const { return static_cast<int>(numbers.size()); }
  const topology::Numbers& rank(int rank) const { return numbers[static_cast<std::size_t>(rank)]; }
  const topology::Host& host_of(int rank) const { return hosts[static_cast<std::size_t>(this->rank(rank).host)]; }
  int local_size(int rank) const { return static_cast<int>(host_of(rank).ranks.size()); }
  int cross_size(int rank) const;
  bool is_homogeneous() const;  // every host has as many ranks
  // The ranks of that one's host, by local rank.
  std::vector<int> neighbours(int rank) const;

  friend bool operator==(const Topology&, const Topology&) = default;
};

// Numbers the ranks of `hosts` in their order, and makes the hosts its only level. What `hosts` names is each rank from
// 0 up, once.
void place_ranks(Topology* topology);

// The levels of some of the ranks, in the order given.
std::vector<topology::Level> levels_of(const Topology& topology, const std::vector<std::int32_t>& ranks);

}  // namespace roda
