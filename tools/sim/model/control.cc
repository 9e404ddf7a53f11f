#include "tools/sim/model/control.h"

#include <algorithm>

#include "algorithms/collectives/ranks.h"
#include "algorithms/index.h"
#include "algorithms/topology/host_tree.h"

namespace roda::sim {
namespace {

// Levels below the root of a complete tree.
std::int32_t depth_of(std::int64_t nodes, std::int64_t fan_out) {
  std::int32_t depth = 0;
  for (std::int64_t level = 1, reached = 1; reached < nodes; ++depth) {
    level *= fan_out;
    reached += level;
  }
  return depth;
}

// The processor time of a rank with so many messages, which hears so many records that name all tensors.
double cpu_of(const ControlOptions& options, double messages, double records) {
  return messages * options.overhead_us + records * options.tensors * options.tensor_us;
}

// Each rank tells rank 0 and is told.
ControlCost star(const ControlOptions& options) {
  const double others = options.ranks - 1;
  ControlCost cost{"star", "every rank to a coordinator and back", 4 * others / options.ranks, 2 * others, 2, 0, 0};
  cost.cpu_us = cpu_of(options, cost.busiest, options.ranks);
  cost.us = 2 * options.latency_us + 2 * others * options.overhead_us + 2 * options.overhead_us;
  return cost;
}

// `nodes` combine upwards and are told downwards; messages spread over all ranks for the mean.
ControlCost tree_of(const ControlOptions& options, std::int32_t nodes, const char* name, const char* about) {
  const double links = nodes - 1;
  const std::int32_t depth = depth_of(nodes, options.fan_out);
  const double children = std::min<double>(options.fan_out, links);
  ControlCost cost{name, about, 4 * links / options.ranks, 0, 2 * depth, 0, 0};
  cost.busiest = depth > 1 ? 2 * (children + 1) : 2 * children;
  cost.us = depth * 2 * (options.latency_us + (children + 1) * options.overhead_us);
  // What its children say, what itself does, and the agreement.
  cost.cpu_us = cpu_of(options, cost.busiest, children + 2);
  return cost;
}

// Recursive doubling; with ranks to spare, these are folded in before and told after.
ControlCost bits(const ControlOptions& options) {
  const ranks::Fold fold = ranks::fold_of(options.ranks);
  const double extra = fold.rest > 0 ? 2 : 0;
  ControlCost cost{"bit vector", "allreduce of a bit for each cached tensor by recursive doubling", 0, 0, 0, 0, 0};
  const double exchanged = 2.0 * fold.rounds * fold.core + 4.0 * fold.rest;
  cost.mean = exchanged / options.ranks;
  cost.busiest = 2.0 * fold.rounds + extra;
  cost.hops = fold.rounds + static_cast<std::int32_t>(extra);
  cost.us = cost.hops * (options.latency_us + 2 * options.overhead_us);
  cost.cpu_us = cpu_of(options, cost.busiest, 1);  // words are combined 64 tensors at a time
  return cost;
}

// Ranks speak to their leader through shared memory; leaders combine along a tree of hosts, and the log comes down it.
// What launches have ended travels with the next announcements.
ControlCost ours(const ControlOptions& options) {
  const double local = std::min(options.ranks, options.ranks_per_host);
  ControlCost cost{"ours", "bits combined in each host, leaders along a tree of hosts", 0, 0, 0, 0, 0, 0};
  const HostTree tree = host_tree(options);
  if (tree.hosts == 1) {  // every rank hears every rank
    cost.cpu_us = cpu_of(options, 0, local);
    cost.records = local * local;
    return cost;
  }
  const double links = tree.hosts - 1;
  cost.mean = 4 * links / options.ranks;
  cost.busiest = 2.0 * tree.most_links;
  cost.hops = 2 * tree.depth;
  cost.us = cost.hops * (options.latency_us + tree.most_links * options.overhead_us);
  // What the leaders below and the host's other ranks say, what itself does, and the agreement.
  cost.cpu_us = cpu_of(options, cost.busiest, tree.most_links + 1 + local);
  // Each rank says one and hears one; leaders also hear what is below them.
  cost.records = 2.0 * options.ranks + (options.ranks - tree.hosts) + links;
  return cost;
}

}  // namespace

HostTree host_tree(const ControlOptions& options) {
  HostTree tree;
  tree.hosts = (options.ranks + options.ranks_per_host - 1) / options.ranks_per_host;
  std::vector<std::int32_t> depths(static_cast<std::size_t>(tree.hosts));
  for (std::int32_t host = 0; host < tree.hosts; ++host) {
    const topology::HostPlace place = topology::place_of(host, tree.hosts, topology::kHostFanOut);
    const auto children = static_cast<std::int32_t>(place.children.size());
    if (host > 0) depths[at(host)] = depths[at(place.parent)] + 1;
    tree.parents += children > 0 ? 1 : 0;
    tree.depth = std::max(tree.depth, depths[at(host)]);
    tree.most_links = std::max(tree.most_links, children + (host > 0 ? 1 : 0));
  }
  return tree;
}

std::vector<ControlCost> control_costs(const ControlOptions& options) {
  return {star(options), tree_of(options, options.ranks, "tree", "up and down a tree of all ranks"), bits(options),
          ours(options)};
}

}  // namespace roda::sim
