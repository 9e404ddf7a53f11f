#include <algorithm>
#include <cstdlib>

#include "core/topology/hwloc_tree.h"
#include "plugins/base/format.h"

namespace roda::topology {

namespace {

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
  std::reverse(place.bridges.begin(), place.bridges.end());
  place.numa_node = numa_node_near(object);
  return place;
}

bool is_computing_gpu(const hwloc_obj_attr_u::hwloc_pcidev_attr_s& pci) {
  const int kind = pci.class_id >> 8;
  return (kind == 0x03 || kind == 0x12) && (pci.vendor_id == 0x10de || pci.vendor_id == 0x1002);
}

Gpu gpu_of(hwloc_obj_t object) {
  Gpu gpu;
  gpu.pci = place_of(object);
  gpu.model = info(object, "PCIDevice");
  for (hwloc_obj_t child = object->io_first_child; child != nullptr; child = child->next_sibling) {
    if (const std::string model = info(child, "GPUModel"); !model.empty()) gpu.model = model;
  }
  return gpu;
}

RdmaDevice rdma_device_of(hwloc_obj_t object) {
  RdmaDevice device{object->name, {}, place_of(object)};
  for (int number = 1;; ++number) {
    const std::string state = info(object, roda::format("Port{}State", number).c_str());
    if (state.empty()) return device;
    RdmaPort port;
    port.number = number;
    port.is_active = state == "4";
    device.ports.push_back(port);
  }
}

}  // namespace

void take_devices(const HwlocTree& tree, Machine* machine) {
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

}  // namespace roda::topology
