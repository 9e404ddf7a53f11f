// One loaded hwloc topology and how its objects are walked.
#pragma once

#include <functional>
#include <string>

#include "algorithms/topology/machine.h"
#include "core/topology/hwloc_library.h"

namespace roda::topology {

// One thread. Loads at construction.
class HwlocTree {
 public:
  // `with_devices`: PCI and what hangs on it; 7 ms more on the machine at hand, for every library that hwloc's plugins
  // load, so it is asked only of descriptions, where it is free. Our own look at the kernel's files is quicker.
  HwlocTree(const Hwloc& hwloc, bool with_devices);
  ~HwlocTree();
  HwlocTree(const HwlocTree&) = delete;
  HwlocTree& operator=(const HwlocTree&) = delete;

  bool is_loaded() const { return is_loaded_; }
  bool is_this_machine() const { return hwloc_.topology_is_thissystem(tree_) != 0; }
  // In logical order.
  void for_each(hwloc_obj_type_t type, const std::function<void(hwloc_obj_t)>& visit) const;
  hwloc_obj_t root() const { return hwloc_.get_obj_by_depth(tree_, 0, 0); }
  CpuSet cpus(hwloc_obj_t object) const;
  // Row by row, in the order of the nodes; empty where the firmware tells nothing.
  std::vector<std::vector<int>> numa_distances(std::size_t nodes) const;

 private:
  const Hwloc& hwloc_;
  hwloc_topology_t tree_ = nullptr;
  bool is_loaded_ = false;
};

// "" when the object has no such info.
std::string info(hwloc_obj_t object, const char* name);

// What a description holds of devices.
void take_devices(const HwlocTree& tree, Machine* machine);

}  // namespace roda::topology
