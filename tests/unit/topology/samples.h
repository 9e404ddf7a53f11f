// A machine and a topology with every field set.
#pragma once

#include "algorithms/topology/topology.h"

namespace roda::topology {

inline Machine sample_machine() {
  Machine machine;
  machine.model = "sample";
  machine.sources = {"a book"};
  machine.cpus = {0, 1, 2, 3};
  machine.cores = {{0, 2}, {1, 3}};
  machine.packages = {{{0, 2}, "left"}, {{1, 3}, "right"}};
  machine.numa_nodes = {{0, {0, 2}, 16, {10, 21}}, {1, {1, 3}, 16, {21, 10}}};
  machine.caches = {{1, 48, {{0, 2}, {1, 3}}}, {3, 8192, {{0, 1, 2, 3}}}};
  const PciPlace place{"0000:01:00.0", {"pci0000:00", "0000:00:01.0"}, 0};
  const PciPlace far{"0000:81:00.0", {"pci0000:80", "0000:80:01.0"}, 1};
  machine.nics = {{"eth0", 25000, true, true, place}, {"veth1", 0, false, false, {}}};
  machine.rdma_devices = {{"mlx5_0", {{1, "InfiniBand", 200000, true}, {2, "Ethernet", 0, false}}, far}};
  machine.gpus = {{"GPU A", place, 80, "9.0", 4, 0, {{1, 4}}, {1}}, {"GPU B", far, 80, "9.0", 4, 6, {{0, 4}}, {0}}};
  machine.absent = {{"gpus", "one more"}};
  return machine;
}

inline Topology sample_topology() {
  Machine small;
  small.cpus = {0};
  Topology topology{{{"big", sample_machine()}, {"small", small}},
                    {{"a", "boot 1", 0, {0, 2}}, {"b", "", 1, {1}}},
                    {{{0, 2}, 0}, {{0}, 0.5}, {{1}, 0}},
                    {},
                    {}};
  place_ranks(&topology);
  return topology;
}

}  // namespace roda::topology
