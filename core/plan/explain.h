// Words and JSON for `roda-info --explain`, and for the log: what would run, what lost, and why.
//
// Pure functions, any thread.
#pragma once

#include <string>

#include "algorithms/topology/topology.h"
#include "core/plan/planner.h"

namespace roda::engine {

// kJson: also what a model needs to predict each candidate's time: its stages, where the ranks are, and how fast the
// hosts' interfaces are (tools/sim/explained.h). kChoice: of what runs alone.
enum class Form { kWords, kJson, kChoice };

// `topology`: where the query's ranks are, with levels; without hosts: all on one.
std::string explain(const Planner& planner, const PlanQuery& query, const Topology& topology, Form form);

// As far as a description of machines tells: the slowest host's fastest device, and the fewest cores.
topology::Link link_of(const Topology& topology);

// What runs at which size, whatever the query says of bytes: "allreduce by shm/oneshot below 64 KiB, by shm/direct
// above".
std::string by_size(Planner* planner, PlanQuery query);

}  // namespace roda::engine
