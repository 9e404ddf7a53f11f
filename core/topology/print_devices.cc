#include <algorithm>

#include "core/topology/print.h"
#include "plugins/base/format.h"

namespace roda::topology {

namespace {

std::string rate_text(int mbit) {
  if (mbit == 0) return "";
  return mbit % 1000 == 0 ? roda::format(", {} Gbit/s", mbit / 1000) : roda::format(", {} Mbit/s", mbit);
}

std::string text_of(const Nic& nic) {
  return roda::format("interface {}{}{}{}", nic.name, rate_text(nic.speed_mbit), nic.is_up ? "" : ", down",
                      nic.is_physical ? "" : ", virtual");
}

std::string text_of(const RdmaDevice& device) {
  std::string text = "RDMA " + device.name;
  for (const RdmaPort& port : device.ports) {
    text += roda::format(", {}{}{}", port.link_layer.empty() ? roda::format("port {}", port.number) : port.link_layer,
                         rate_text(port.rate_mbit), port.is_active ? "" : ", down");
  }
  return text;
}

std::string text_of(const Gpu& gpu, std::size_t index) {
  std::string text = roda::format("GPU {}: {}", index, gpu.model);
  if (gpu.memory_gib > 0) text += roda::format(", {} GiB", gpu.memory_gib);
  if (!gpu.compute_capability.empty()) text += ", compute capability " + gpu.compute_capability;
  return text;
}

// A bridge, as the devices below it are put in.
struct Bridge {
  std::string name;
  std::vector<Bridge> bridges;
  std::vector<std::string> devices;

  void add(const PciPlace& place, std::size_t depth, std::string text) {
    if (depth == place.bridges.size()) {
      devices.push_back(place.address.empty() ? std::move(text) : roda::format("{}  {}", place.address, text));
      return;
    }
    auto known = std::find_if(bridges.begin(), bridges.end(),
                              [&](const Bridge& bridge) { return bridge.name == place.bridges[depth]; });
    if (known == bridges.end()) known = bridges.insert(bridges.end(), {place.bridges[depth], {}, {}});
    known->add(place, depth + 1, std::move(text));
  }

  // Bridges with one thing below them are left out.
  std::vector<Branch> branches() const {
    std::vector<Branch> out;
    for (const std::string& device : devices) out.push_back({device, {}});
    for (const Bridge& bridge : bridges) {
      std::vector<Branch> below = bridge.branches();
      if (below.size() == 1) {
        out.push_back(std::move(below.front()));
      } else {
        out.push_back({(bridge.name.starts_with("pci") ? "host bridge " : "bridge ") + bridge.name, std::move(below)});
      }
    }
    return out;
  }
};

std::string link_text(const Machine& machine, int a, int b) {
  const Gpu& gpu = machine.gpus[static_cast<std::size_t>(a)];
  if (const auto links = gpu.peer_links.find(b); links != gpu.peer_links.end()) {
    const int gbytes = links->second * nvlink_gbytes(gpu.nvlink_version);
    return roda::format("{} NVLink{} to GPU {}{}", links->second, links->second == 1 ? "" : "s", b,
                        gbytes > 0 ? roda::format(" ({} GB/s each way)", gbytes) : "");
  }
  const bool is_peer = std::binary_search(gpu.peers.begin(), gpu.peers.end(), b);
  return roda::format("GPU {} over {}{}", b,
                      distance_name(distance(gpu.pci, machine.gpus[static_cast<std::size_t>(b)].pci)),
                      is_peer ? ", peer access" : "");
}

std::string reach_text(const Machine& machine, int index) {
  const Gpu& gpu = machine.gpus[static_cast<std::size_t>(index)];
  if (gpu.switch_links > 0) {
    const int gbytes = gpu.switch_links * nvlink_gbytes(gpu.nvlink_version);
    return roda::format("{} NVLinks to the switch{}", gpu.switch_links,
                        gbytes > 0 ? roda::format(" ({} GB/s each way)", gbytes) : "");
  }
  std::string text;
  for (int b = 0; b < static_cast<int>(machine.gpus.size()); ++b) {
    if (b != index) text += (text.empty() ? "" : "; ") + link_text(machine, index, b);
  }
  return text.empty() ? "the only one" : text;
}

}  // namespace

std::vector<Branch> device_branches(const Machine& machine, int node) {
  const auto is_here = [&](const PciPlace& pci) {
    const bool is_known = std::any_of(machine.numa_nodes.begin(), machine.numa_nodes.end(),
                                      [&](const NumaNode& other) { return other.number == pci.numa_node; });
    return (is_known ? pci.numa_node : -1) == node;
  };
  Bridge root;
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    if (is_here(machine.gpus[i].pci)) root.add(machine.gpus[i].pci, 0, text_of(machine.gpus[i], i));
  }
  for (const RdmaDevice& device : machine.rdma_devices) {
    if (is_here(device.pci)) root.add(device.pci, 0, text_of(device));
  }
  for (const Nic& nic : machine.nics) {
    if (is_here(nic.pci)) root.add(nic.pci, 0, text_of(nic));
  }
  return root.branches();
}

std::vector<Branch> gpu_branches(const Machine& machine) {
  std::vector<Branch> lines;
  std::vector<int> taken(machine.rdma_devices.size(), 0);
  for (int i = 0; i < static_cast<int>(machine.gpus.size()); ++i) {
    std::string text = roda::format("GPU {} reaches {}", i, reach_text(machine, i));
    if (const int device = nearest_rdma_device(machine, i, taken); device >= 0) {
      const RdmaDevice& nearest = machine.rdma_devices[static_cast<std::size_t>(device)];
      ++taken[static_cast<std::size_t>(device)];
      text += roda::format("; its network device is {} ({})", nearest.name,
                           distance_name(distance(machine.gpus[static_cast<std::size_t>(i)].pci, nearest.pci)));
    }
    lines.push_back({std::move(text), {}});
  }
  return lines;
}

}  // namespace roda::topology
