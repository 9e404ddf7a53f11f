#include <cstdlib>
#include <map>

#include "core/topology/cpus.h"
#include "core/topology/hwloc_tree.h"

namespace roda::topology {

namespace {

void take_caches(const HwlocTree& tree, Machine* machine) {
  for (int level = 1; level <= 5; ++level) {
    std::map<std::int64_t, std::vector<CpuSet>> by_size;
    tree.for_each(static_cast<hwloc_obj_type_t>(HWLOC_OBJ_L1CACHE + level - 1), [&](hwloc_obj_t object) {
      by_size[static_cast<std::int64_t>(object->attr->cache.size >> 10)].push_back(tree.cpus(object));
    });
    for (auto& [kib, groups] : by_size) machine->caches.push_back({level, kib, std::move(groups)});
  }
}

void take_nodes(const HwlocTree& tree, Machine* machine) {
  tree.for_each(HWLOC_OBJ_NUMANODE, [&](hwloc_obj_t object) {
    NumaNode node;
    node.number = static_cast<int>(object->os_index);
    node.cpus = tree.cpus(object);
    node.memory_gib = static_cast<std::int64_t>((object->attr->numanode.local_memory + (1ull << 29)) >> 30);
    machine->numa_nodes.push_back(std::move(node));
  });
  const auto distances = tree.numa_distances(machine->numa_nodes.size());
  for (std::size_t i = 0; i < distances.size(); ++i) machine->numa_nodes[i].distances = distances[i];
}

bool is_set(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr && text[0] != '\0';
}

}  // namespace

Status find_cpus_with_hwloc(const std::string& library, Machine* machine, bool* is_this_machine) {
  Hwloc hwloc;
  RODA_RETURN_IF_ERROR(Hwloc::open(library, &hwloc));
  const HwlocTree tree(hwloc, is_set("HWLOC_XMLFILE") || is_set("HWLOC_FSROOT"));
  if (!tree.is_loaded()) return Status::unavailable("hwloc could not read the machine");
  *is_this_machine = tree.is_this_machine();
  machine->cpus = tree.cpus(tree.root());
  machine->model = info(tree.root(), "DMIProductName");
  tree.for_each(HWLOC_OBJ_CORE, [&](hwloc_obj_t core) { machine->cores.push_back(tree.cpus(core)); });
  tree.for_each(HWLOC_OBJ_PACKAGE, [&](hwloc_obj_t package) {
    machine->packages.push_back({tree.cpus(package), info(package, "CPUModel")});
  });
  take_nodes(tree, machine);
  take_caches(tree, machine);
  if (!*is_this_machine) take_devices(tree, machine);
  return {};
}

}  // namespace roda::topology
