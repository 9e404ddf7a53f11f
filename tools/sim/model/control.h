// What it costs to agree on a step's ready tensors, for ways to build a control plane: counted, not simulated.
//
// A round: every rank says that it is ready and learns that all are. `overhead_us` is the processor time of a message
// at each end, `latency_us` one hop's; messages inside a host through shared memory count as none. `tensor_us` is the
// processor time of a known tensor in a record, of however many ranks it speaks (measured: core/negotiate/bench).
// Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace roda::sim {

struct ControlOptions {
  std::int32_t ranks = 64;
  std::int32_t ranks_per_host = 8;
  std::int32_t fan_out = 4;  // children of a node of the tree of ranks
  double overhead_us = 1;
  double latency_us = 5;
  std::int32_t tensors = 161;  // of a ResNet-50
  double tensor_us = 0.15;
};

struct ControlCost {
  std::string scheme;
  std::string about;
  double mean = 0;        // messages sent and received per rank
  double busiest = 0;     // the same at the rank that has most
  std::int32_t hops = 0;  // one after the other, from the last ready rank to the last that knows
  double us = 0;          // hops, and the messages of the busiest ranks on them
  double cpu_us = 0;      // of the rank that has most to do: its messages, and the tensors in what it hears
  double records = 0;     // that name the tensors, said and heard by all ranks together; ours alone
};

// The tree of hosts of our control plane (algorithms/topology/host_tree.h).
struct HostTree {
  std::int32_t hosts = 1;
  std::int32_t parents = 0;     // hosts with others below
  std::int32_t depth = 0;       // below the first host
  std::int32_t most_links = 0;  // of a host
};
HostTree host_tree(const ControlOptions& options);

// A coordinator, a tree of ranks, an allreduce of bit vectors, and ours, whose tree of hosts has a fan-out of its own.
std::vector<ControlCost> control_costs(const ControlOptions& options);

}  // namespace roda::sim
