#include "core/topology/hwloc_tree.h"

#include <cstring>

namespace roda::topology {

namespace {

// HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING, which older headers lack.
constexpr unsigned long kDontChangeBinding = 1ul << 6;

}  // namespace

HwlocTree::HwlocTree(const Hwloc& hwloc, bool with_devices) : hwloc_(hwloc) {
  if (hwloc_.topology_init(&tree_) != 0) {
    tree_ = nullptr;
    return;
  }
  // The machine, not the part of it that a cpuset leaves: that is each rank's binding.
  // Nor is this thread to visit every CPU, which takes as long as the busiest makes it wait (hwloc 2.5 and newer).
  constexpr unsigned long kFlags = HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED;
  if (hwloc_.topology_set_flags(tree_, kFlags | kDontChangeBinding) != 0) hwloc_.topology_set_flags(tree_, kFlags);
  hwloc_.topology_set_icache_types_filter(tree_, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_.topology_set_io_types_filter(tree_, with_devices ? HWLOC_TYPE_FILTER_KEEP_ALL : HWLOC_TYPE_FILTER_KEEP_NONE);
  is_loaded_ = hwloc_.topology_load(tree_) == 0;
}

HwlocTree::~HwlocTree() {
  if (tree_ != nullptr) hwloc_.topology_destroy(tree_);
}

void HwlocTree::for_each(hwloc_obj_type_t type, const std::function<void(hwloc_obj_t)>& visit) const {
  const int depth = hwloc_.get_type_depth(tree_, type);
  if (depth == HWLOC_TYPE_DEPTH_UNKNOWN || depth == HWLOC_TYPE_DEPTH_MULTIPLE) return;
  const auto count = static_cast<unsigned>(hwloc_.get_nbobjs_by_depth(tree_, depth));
  for (unsigned i = 0; i < count; ++i) visit(hwloc_.get_obj_by_depth(tree_, depth, i));
}

CpuSet HwlocTree::cpus(hwloc_obj_t object) const {
  CpuSet set;
  if (object->cpuset == nullptr) return set;
  for (int cpu = hwloc_.bitmap_next(object->cpuset, -1); cpu >= 0 && cpu < kMostCpus;
       cpu = hwloc_.bitmap_next(object->cpuset, cpu)) {
    set.push_back(cpu);
  }
  return set;
}

std::vector<std::vector<int>> HwlocTree::numa_distances(std::size_t nodes) const {
  std::vector<std::vector<int>> rows;
  hwloc_distances_s* found = nullptr;
  unsigned count = 1;
  if (hwloc_.distances_get(tree_, &count, &found, HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) != 0 || count == 0)
    return rows;
  const bool is_ours = found->nbobjs == nodes && found->objs[0]->type == HWLOC_OBJ_NUMANODE;
  for (unsigned i = 0; is_ours && i < found->nbobjs; ++i) {
    std::vector<int>& row = rows.emplace_back();
    for (unsigned j = 0; j < found->nbobjs; ++j) row.push_back(static_cast<int>(found->values[i * found->nbobjs + j]));
  }
  hwloc_.distances_release(tree_, found);
  return rows;
}

std::string info(hwloc_obj_t object, const char* name) {
  for (unsigned i = 0; i < object->infos_count; ++i) {
    if (std::strcmp(object->infos[i].name, name) == 0) return object->infos[i].value;
  }
  return "";
}

}  // namespace roda::topology
