#include "core/topology/kernel_files.h"

#include <dlfcn.h>
#include <hwloc.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "plugins/base/format.h"

namespace roda::topology {
namespace {

// clang-format off
#define RODA_HWLOC_FUNCTIONS(X)                                                                                   \
  X(get_api_version) X(topology_init) X(topology_destroy) X(topology_load) X(topology_set_flags)                  \
  X(topology_set_io_types_filter) X(topology_set_icache_types_filter) X(topology_is_thissystem) X(get_type_depth) \
  X(get_nbobjs_by_depth) X(get_obj_by_depth) X(bitmap_next) X(distances_get) X(distances_release)
// clang-format on

// Opened rather than linked in: a static hwloc would bring libudev along as a library to load, a second copy beside the
// one that an MPI in this process uses, and could not be corrected for new machines without a new build of ours. Never
// closed: another library of this process may use it.
struct Hwloc {
#define RODA_HWLOC_MEMBER(name) decltype(&::hwloc_##name) name = nullptr;
  RODA_HWLOC_FUNCTIONS(RODA_HWLOC_MEMBER)
#undef RODA_HWLOC_MEMBER
};

// Refuses a library of another major version than the headers'.
Status open(const std::string& file, Hwloc* hwloc) {
  void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return Status::unavailable(
        roda::format("hwloc can't be opened (Debian: libhwloc15): {}", why != nullptr ? why : file));
  }
  const char* missing = nullptr;
#define RODA_HWLOC_LOOK_UP(name)                                                          \
  hwloc->name = reinterpret_cast<decltype(hwloc->name)>(::dlsym(handle, "hwloc_" #name)); \
  if (hwloc->name == nullptr) missing = "hwloc_" #name;
  RODA_HWLOC_FUNCTIONS(RODA_HWLOC_LOOK_UP)
#undef RODA_HWLOC_LOOK_UP
  if (missing != nullptr) return Status::unavailable(roda::format("{} has no {}", file, missing));
  const unsigned version = hwloc->get_api_version();
  if (version >> 16 == HWLOC_API_VERSION >> 16) return {};
  return Status::unavailable(
      roda::format("{} has interface {:#x}, of another major version than {:#x}", file, version, HWLOC_API_VERSION));
}

// HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING, which older headers lack.
constexpr unsigned long kDontChangeBinding = 1ul << 6;

// One loaded hwloc topology and how its objects are walked. One thread.
class Tree {
 public:
  // `with_devices`: PCI and what hangs on it; 7 ms more on the machine at hand, for every library that hwloc's plugins
  // load, so it is asked only of descriptions, where it is free. Our own look at the kernel's files is quicker.
  Tree(const Hwloc& hwloc, bool with_devices) : hwloc_(hwloc) {
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
  ~Tree() {
    if (tree_ != nullptr) hwloc_.topology_destroy(tree_);
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  bool is_loaded() const { return is_loaded_; }
  bool is_this_machine() const { return hwloc_.topology_is_thissystem(tree_) != 0; }
  hwloc_obj_t root() const { return hwloc_.get_obj_by_depth(tree_, 0, 0); }

  // In logical order.
  void for_each(hwloc_obj_type_t type, const auto& visit) const {
    const int depth = hwloc_.get_type_depth(tree_, type);
    if (depth == HWLOC_TYPE_DEPTH_UNKNOWN || depth == HWLOC_TYPE_DEPTH_MULTIPLE) return;
    const auto count = static_cast<unsigned>(hwloc_.get_nbobjs_by_depth(tree_, depth));
    for (unsigned i = 0; i < count; ++i) visit(hwloc_.get_obj_by_depth(tree_, depth, i));
  }

  CpuSet cpus(hwloc_obj_t object) const {
    CpuSet set;
    if (object->cpuset == nullptr) return set;
    for (int cpu = hwloc_.bitmap_next(object->cpuset, -1); cpu >= 0 && cpu < kMostCpus;
         cpu = hwloc_.bitmap_next(object->cpuset, cpu)) {
      set.push_back(cpu);
    }
    return set;
  }

  // Row by row, in the order of the nodes; none where the firmware tells nothing.
  void read_distances(std::vector<NumaNode>* nodes) const {
    hwloc_distances_s* found = nullptr;
    unsigned count = 1;
    constexpr unsigned long kKind = HWLOC_DISTANCES_KIND_MEANS_LATENCY;
    if (hwloc_.distances_get(tree_, &count, &found, kKind, 0) != 0 || count == 0) return;
    const bool is_ours = found->nbobjs == nodes->size() && found->objs[0]->type == HWLOC_OBJ_NUMANODE;
    const hwloc_uint64_t* next = found->values;
    for (std::size_t i = 0; is_ours && i < nodes->size(); ++i, next += nodes->size()) {
      (*nodes)[i].distances.assign(next, next + nodes->size());
    }
    hwloc_.distances_release(tree_, found);
  }

 private:
  const Hwloc& hwloc_;
  hwloc_topology_t tree_ = nullptr;
  bool is_loaded_ = false;
};

// "" when the object has no such info.
std::string info(hwloc_obj_t object, const std::string& name) {
  for (unsigned i = 0; i < object->infos_count; ++i) {
    if (name == object->infos[i].name) return object->infos[i].value;
  }
  return "";
}

void take_caches(const Tree& tree, Machine* machine) {
  for (int level = 1; level <= 5; ++level) {
    std::map<std::int64_t, std::vector<CpuSet>> by_size;
    tree.for_each(static_cast<hwloc_obj_type_t>(HWLOC_OBJ_L1CACHE + level - 1), [&](hwloc_obj_t object) {
      by_size[static_cast<std::int64_t>(object->attr->cache.size >> 10)].push_back(tree.cpus(object));
    });
    for (auto& [kib, groups] : by_size) machine->caches.push_back({level, kib, std::move(groups)});
  }
}

void take_nodes(const Tree& tree, Machine* machine) {
  tree.for_each(HWLOC_OBJ_NUMANODE, [&](hwloc_obj_t object) {
    const auto gib = static_cast<std::int64_t>((object->attr->numanode.local_memory + (1ull << 29)) >> 30);
    machine->numa_nodes.push_back({static_cast<int>(object->os_index), tree.cpus(object), gib, {}});
  });
  tree.read_distances(&machine->numa_nodes);
}

// --- devices, of a description --------------------------------------------------------------------------------------

std::string address_of(const hwloc_obj_attr_u::hwloc_pcidev_attr_s& pci) {
  return roda::format("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func);
}

std::string name_of(const hwloc_obj_attr_u::hwloc_bridge_attr_s& bridge) {
  if (bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI) return address_of(bridge.upstream.pci);
  return roda::format("pci{:04x}:{:02x}", bridge.downstream.pci.domain, bridge.downstream.pci.secondary_bus);
}

// The nearest memory of the object that a host bridge hangs on.
int numa_node_near(hwloc_obj_t object) {
  for (; object != nullptr; object = object->parent) {
    if (object->memory_first_child != nullptr) return static_cast<int>(object->memory_first_child->os_index);
  }
  return -1;
}

// Of a PCI device, or of an OS device below one.
PciPlace place_of(hwloc_obj_t object) {
  PciPlace place;
  for (; object != nullptr; object = object->parent) {
    if (object->type == HWLOC_OBJ_PCI_DEVICE && place.address.empty()) {
      place.address = address_of(object->attr->pcidev);
    } else if (object->type == HWLOC_OBJ_BRIDGE && !place.address.empty()) {
      place.bridges.push_back(name_of(object->attr->bridge));
    } else if (object->type != HWLOC_OBJ_OS_DEVICE && object->type != HWLOC_OBJ_PCI_DEVICE) {
      break;
    }
  }
  if (place.address.empty()) return {};
  std::ranges::reverse(place.bridges);
  place.numa_node = numa_node_near(object);
  return place;
}

bool is_computing_gpu(const hwloc_obj_attr_u::hwloc_pcidev_attr_s& pci) {
  const int kind = pci.class_id >> 8;
  return (kind == 0x03 || kind == 0x12) && (pci.vendor_id == 0x10de || pci.vendor_id == 0x1002);
}

Gpu gpu_of(hwloc_obj_t object) {
  Gpu gpu{info(object, "PCIDevice"), place_of(object)};
  for (hwloc_obj_t child = object->io_first_child; child != nullptr; child = child->next_sibling) {
    if (const std::string model = info(child, "GPUModel"); !model.empty()) gpu.model = model;
  }
  return gpu;
}

RdmaDevice rdma_device_of(hwloc_obj_t object) {
  RdmaDevice device{object->name, {}, place_of(object)};
  for (int number = 1;; ++number) {
    const std::string state = info(object, roda::format("Port{}State", number));
    if (state.empty()) return device;
    device.ports.push_back({number, "", 0, state == "4"});
  }
}

void take_devices(const Tree& tree, Machine* machine) {
  tree.for_each(HWLOC_OBJ_PCI_DEVICE, [&](hwloc_obj_t object) {
    if (is_computing_gpu(object->attr->pcidev)) machine->gpus.push_back(gpu_of(object));
  });
  tree.for_each(HWLOC_OBJ_OS_DEVICE, [&](hwloc_obj_t object) {
    if (object->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS) {
      machine->rdma_devices.push_back(rdma_device_of(object));
    } else if (object->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK) {
      machine->nics.push_back({object->name, 0, true, true, place_of(object)});
    }
  });
}

bool is_set(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr && text[0] != '\0';
}

}  // namespace

Status ask_hwloc(const std::string& library, Machine* machine, bool* is_this_machine) {
  Hwloc hwloc;
  RODA_RETURN_IF_ERROR(open(library, &hwloc));
  const Tree tree(hwloc, is_set("HWLOC_XMLFILE") || is_set("HWLOC_FSROOT"));
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
