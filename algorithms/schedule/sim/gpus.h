// How long collectives on the memory of GPUs take: a library's own (NCCL), over all ranks or inside hosts, and
// compositions whose part between hosts goes through host memory.
//
// The library. NCCL chooses among rings and trees, each by three protocols, by a model of its own: so much to begin, so
// much for each hop, and a share of the links' bandwidth (src/graph/tuning.cc of NCCL 2.2x, Hopper). The same is
// computed here; in-network and in-switch reductions are left out, which make it faster. A ring carries every byte once
// over each host's cards in each of its two passes. Over more than two hosts a pair of trees sends as much.
//
// A composition is a pipeline of slices. The library's calls follow each other on one stream, in the order in which
// they become ready. Copies down and copies up have a stream and a link each; between hosts all ranks of a host share
// its cards, and every rank's part takes as long as the other model says (simulate.h).
//
// A prediction, not a measurement. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "algorithms/schedule/sim/simulate.h"

namespace roda::sim {

// Whether a stage of it is a library's own collective.
bool has_native(const plan::Plan& plan);

// Seconds of allreduce, reduce-scatter or allgather by the library. `bytes`: as Scenario has them. The cluster has
// GPUs, and a level above the hosts if there are several.
double library_seconds(const Cluster& cluster, schedule::Collective collective, std::int32_t hosts,
                       std::int32_t ranks_of_each, double bytes);

// As simulate(), of an allreduce by the library alone, or by it inside hosts and an algorithm between them.
std::optional<std::string> simulate_on_gpus(const Scenario& scenario, const Options& options, Outcome* outcome);

}  // namespace roda::sim
