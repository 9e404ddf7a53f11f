// A topology as text for people: a tree.
#pragma once

#include <string>
#include <vector>

#include "algorithms/topology/topology.h"

namespace roda::topology {

// One line and what lies below it.
struct Branch {
  std::string text;
  std::vector<Branch> children;
};

std::string render(const Branch& root);

// Hosts with their ranks, then each machine. Hosts of one name are told apart by their place.
std::string print(const Topology& topology);

// "rank 1 of 4, local 1 of 2, cross 0 of 2, homogeneous", a line.
std::string print_rank(const Topology& topology, int rank);

// Parts of a machine's tree.
Branch machine_branch(const NamedMachine& named);
// Devices whose NUMA node is `node` (-1: those that have none of the list), below the bridges that they share.
std::vector<Branch> device_branches(const Machine& machine, int node);
// How the GPUs reach one another and the network. Empty without GPUs.
std::vector<Branch> gpu_branches(const Machine& machine);

// "105 MiB", "48 KiB".
std::string size_text(std::int64_t kib);

}  // namespace roda::topology
