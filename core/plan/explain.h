// Words and JSON for `roda-info --explain`, and for the log: what would run, what lost and by how much, and what plans
// are predicted to cost: the simulator's model over links that stand for a cluster's. Nothing is selected by that.
//
// A prediction, not a measurement. Pure functions, any thread.
#pragma once

#include <optional>
#include <string>

#include "algorithms/schedule/sim/cluster.h"
#include "algorithms/topology/topology.h"
#include "core/plan/planner.h"

namespace roda::engine {

// Of an ordinary machine.
struct Links {
  sim::Level memory{"host", 1, 0.3, 0.2, 8};      // ranks of one host, by a transport that reaches only their host
  sim::Level loopback{"host", 1, 12, 6, 3};       // ranks of one host, by one that reaches all
  sim::Level network{"network", 0, 30, 8, 1.25};  // of one host's interface: 10 Gbit/s Ethernet
  double reduce_GBps = 6;                         // of one rank
  double copy_GBps = 10;
  std::string source = "assumed";  // where the figures are from, in words
};

// The network's bandwidth from the fastest interface that is up on every host of several, and InfiniBand's latency
// where that is it; the rest as assumed.
Links links_of(const Topology& topology);

struct Prediction {
  double seconds = 0;
  double inside_bytes = 0;  // between ranks of one host, all ranks together
  double between_bytes = 0;
};

// nullopt: it can't be predicted (a library's own collective, or more than about a second of one core).
std::optional<Prediction> predict(const Plan& plan, const PlanQuery& query, const Links& links);

// kChoice: JSON of what runs alone; nothing is predicted.
enum class Form { kWords, kJson, kChoice };

// `links`: that predictions go by.
std::string explain(const Planner& planner, const PlanQuery& query, const Links& links, Form form);

// What runs at which size, whatever the query says of bytes: "allreduce by shm/oneshot below 64 KiB, by shm/direct
// above".
std::string by_size(Planner* planner, PlanQuery query);

}  // namespace roda::engine
