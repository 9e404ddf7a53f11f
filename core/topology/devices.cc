#include "core/topology/devices.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "plugins/base/format.h"

namespace roda::topology {

namespace {

template <typename T>
void cut(std::vector<T>* list, const char* name, Machine* machine) {
  if (list->size() <= kMostDevices) return;
  machine->absent[name] = roda::format("{} more; {} are kept", list->size() - kMostDevices, kMostDevices);
  list->resize(kMostDevices);
}

Nic read_nic(const KernelFiles& files, const std::string& name) {
  const std::string folder = "/sys/class/net/" + name;
  Nic nic;
  nic.name = name;
  nic.is_up = files.line(folder + "/operstate") == "up";
  nic.is_physical = files.exists(folder + "/device");
  // Virtual devices and links that are down say -1, or nothing.
  nic.speed_mbit = static_cast<int>(std::max<std::int64_t>(0, files.number(folder + "/speed", 0)));
  if (nic.is_physical) nic.pci = files.pci_place(folder + "/device");
  return nic;
}

// "400 Gb/sec (4X NDR)"
int rate_mbit(const std::string& text) {
  const double gigabits = std::strtod(text.c_str(), nullptr);
  return gigabits > 0 && gigabits < 1e6 ? static_cast<int>(std::lround(gigabits * 1000)) : 0;
}

RdmaPort read_port(const KernelFiles& files, const std::string& folder, int number) {
  RdmaPort port;
  port.number = number;
  port.link_layer = files.line(folder + "/link_layer");
  port.rate_mbit = rate_mbit(files.line(folder + "/rate"));
  port.is_active = files.line(folder + "/state").starts_with("4:");
  return port;
}

// The model in the driver's words: "Model:    NVIDIA H100 80GB HBM3".
std::string model_told_by_driver(const KernelFiles& files, const std::string& address) {
  const std::string text = files.line("/proc/driver/nvidia/gpus/" + address + "/information");
  const std::size_t start = text.find_first_not_of(" \t", std::string("Model:").size());
  return text.starts_with("Model:") && start != std::string::npos ? text.substr(start) : "";
}

std::int64_t hexadecimal(const std::string& text) { return std::strtoll(text.c_str(), nullptr, 16); }

bool is_computing_gpu(const KernelFiles& files, const std::string& folder) {
  const std::int64_t kind = hexadecimal(files.line(folder + "/class")) >> 16;
  constexpr std::int64_t kDisplay = 0x03, kAccelerator = 0x12;
  if (kind != kDisplay && kind != kAccelerator) return false;
  const std::string vendor = files.line(folder + "/vendor");
  return vendor == "0x10de" || vendor == "0x1002";
}

}  // namespace

void find_nics(const KernelFiles& files, Machine* machine) {
  std::vector<Nic> found;
  for (const std::string& name : files.names("/sys/class/net")) {
    if (files.exists("/sys/class/net/" + name + "/operstate") && name != "lo") found.push_back(read_nic(files, name));
  }
  const bool has_physical = std::any_of(found.begin(), found.end(), [](const Nic& nic) { return nic.is_physical; });
  std::erase_if(found, [&](const Nic& nic) { return has_physical ? !nic.is_physical : !nic.is_up; });
  cut(&found, "nics", machine);
  machine->nics = std::move(found);
}

void find_rdma_devices(const KernelFiles& files, Machine* machine) {
  std::vector<RdmaDevice> found;
  for (const std::string& name : files.names("/sys/class/infiniband")) {
    const std::string folder = "/sys/class/infiniband/" + name;
    RdmaDevice device;
    device.name = name;
    device.pci = files.pci_place(folder + "/device");
    for (const std::string& port : files.names(folder + "/ports")) {
      device.ports.push_back(read_port(files, folder + "/ports/" + port, std::atoi(port.c_str())));
    }
    found.push_back(std::move(device));
  }
  cut(&found, "rdma_devices", machine);
  machine->rdma_devices = std::move(found);
}

void find_gpus(const KernelFiles& files, Machine* machine) {
  std::vector<Gpu> found;
  for (const std::string& address : files.names("/sys/bus/pci/devices")) {
    const std::string folder = "/sys/bus/pci/devices/" + address;
    if (!is_computing_gpu(files, folder)) continue;
    Gpu gpu;
    gpu.pci = files.pci_place(folder);
    gpu.model = model_told_by_driver(files, address);
    if (gpu.model.empty()) {
      gpu.model = roda::format("PCI {}:{}", files.line(folder + "/vendor"), files.line(folder + "/device"));
    }
    found.push_back(std::move(gpu));
  }
  if (!found.empty()) {
    machine->absent["gpus/links"] = "the driver's library was not asked; `roda-info --topology` asks it";
  }
  cut(&found, "gpus", machine);
  machine->gpus = std::move(found);
}

}  // namespace roda::topology
