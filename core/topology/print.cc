#include "core/topology/json.h"

#include <algorithm>

#include "algorithms/index.h"
#include "plugins/base/format.h"

namespace roda::topology {
namespace {

constexpr std::size_t kMostHosts = 32;

// One line and what lies below it.
struct Branch {
  std::string text;
  std::vector<Branch> children{};

  Branch& add(std::string line) { return children.emplace_back(Branch{std::move(line)}); }
};

const char* plural(std::size_t count) { return count == 1 ? "" : "s"; }

std::string render(const Branch& root, const std::string& margin = "") {
  std::string out = root.text + "\n";
  for (const Branch& child : root.children) {
    const bool is_last = &child == &root.children.back();
    out += margin + (is_last ? "└─ " : "├─ ") + render(child, margin + (is_last ? "   " : "│  "));
  }
  return out;
}

std::string counted(std::size_t count, const char* what) { return roda::format("{} {}{}", count, what, plural(count)); }

std::size_t cores_within(const Machine& machine, const CpuSet& cpus) {
  return static_cast<std::size_t>(
      std::ranges::count_if(machine.cores, [&](const CpuSet& core) { return contains(cpus, core); }));
}

// Caches below a NUMA node: those that several cores share one by one, the others in one line per level and size.
void add_caches(const Machine& machine, const CpuSet& cpus, Branch* branch) {
  for (auto cache = machine.caches.rbegin(); cache != machine.caches.rend(); ++cache) {
    std::vector<const CpuSet*> inside;
    for (const CpuSet& group : cache->shared_by) {
      if (contains(cpus, group)) inside.push_back(&group);
    }
    if (inside.empty()) continue;
    const std::string size = roda::format("L{} {}", cache->level, size_text(cache->kib));
    if (cores_within(machine, *inside.front()) <= 1) {
      branch->add(roda::format("{} for each of {}", size, counted(inside.size(), "core")));
      continue;
    }
    for (const CpuSet* group : inside) {
      branch->add(roda::format("{} shared by {}: cpus {}", size, counted(cores_within(machine, *group), "core"),
                               print_cpus(*group)));
    }
  }
}

// --- devices ---------------------------------------------------------------------------------------------------------

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
    auto known =
        std::ranges::find_if(bridges, [&](const Bridge& bridge) { return bridge.name == place.bridges[depth]; });
    if (known == bridges.end()) known = bridges.insert(bridges.end(), {place.bridges[depth], {}, {}});
    known->add(place, depth + 1, std::move(text));
  }

  // Bridges with one thing below them are left out.
  void print(Branch* branch) const {
    for (const std::string& device : devices) branch->add(device);
    for (const Bridge& bridge : bridges) {
      Branch below{(bridge.name.starts_with("pci") ? "host bridge " : "bridge ") + bridge.name};
      bridge.print(&below);
      branch->children.push_back(below.children.size() == 1 ? std::move(below.children.front()) : std::move(below));
    }
  }
};

std::string bandwidth_text(const Gpu& gpu, int links) {
  const int gbytes = links * nvlink_gbytes(gpu.nvlink_version);
  return gbytes > 0 ? roda::format(" ({} GB/s each way)", gbytes) : "";
}

std::string link_text(const Machine& machine, int a, int b) {
  const Gpu& gpu = machine.gpus[at(a)];
  if (const auto links = gpu.peer_links.find(b); links != gpu.peer_links.end()) {
    return roda::format("{} to GPU {}{}", counted(at(links->second), "NVLink"), b, bandwidth_text(gpu, links->second));
  }
  const bool is_peer = std::ranges::binary_search(gpu.peers, b);
  return roda::format("GPU {} over {}{}", b, distance_name(distance(gpu.pci, machine.gpus[at(b)].pci)),
                      is_peer ? ", peer access" : "");
}

std::string reach_text(const Machine& machine, int index) {
  const Gpu& gpu = machine.gpus[at(index)];
  if (gpu.switch_links > 0) {
    return roda::format("{} NVLinks to the switch{}", gpu.switch_links, bandwidth_text(gpu, gpu.switch_links));
  }
  std::string text;
  for (int b = 0; b < static_cast<int>(machine.gpus.size()); ++b) {
    if (b != index) text += (text.empty() ? "" : "; ") + link_text(machine, index, b);
  }
  return text.empty() ? "the only one" : text;
}

// Adds the devices whose NUMA node is `node` (-1: none of the list), below the bridges that they share.
void add_devices(const Machine& machine, int node, Branch* branch) {
  const auto is_here = [&](const PciPlace& pci) {
    const bool is_known =
        std::ranges::any_of(machine.numa_nodes, [&](const NumaNode& other) { return other.number == pci.numa_node; });
    return (is_known ? pci.numa_node : -1) == node;
  };
  Bridge root;
  const auto add = [&](const PciPlace& pci, std::string text) {
    if (is_here(pci)) root.add(pci, 0, std::move(text));
  };
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) add(machine.gpus[i].pci, text_of(machine.gpus[i], i));
  for (const RdmaDevice& device : machine.rdma_devices) add(device.pci, text_of(device));
  for (const Nic& nic : machine.nics) add(nic.pci, text_of(nic));
  root.print(branch);
}

// How the GPUs reach one another and the network.
void add_reach(const Machine& machine, Branch* branch) {
  std::vector<int> taken(machine.rdma_devices.size(), 0);
  for (int i = 0; i < static_cast<int>(machine.gpus.size()); ++i) {
    std::string text = roda::format("GPU {} reaches {}", i, reach_text(machine, i));
    if (const int device = nearest_rdma_device(machine, i, taken); device >= 0) {
      const RdmaDevice& nearest = machine.rdma_devices[at(device)];
      ++taken[at(device)];
      text += roda::format("; its network device is {} ({})", nearest.name,
                           distance_name(distance(machine.gpus[at(i)].pci, nearest.pci)));
    }
    branch->add(std::move(text));
  }
}

// --- machines and hosts ----------------------------------------------------------------------------------------------

void add_node(const Machine& machine, const NumaNode& node, Branch* branch) {
  const std::string memory = node.memory_gib > 0 ? roda::format("{} GiB, ", node.memory_gib) : "";
  Branch& own = branch->add(roda::format("NUMA node {}: {}cpus {}", node.number, memory, print_cpus(node.cpus)));
  add_caches(machine, node.cpus, &own);
  add_devices(machine, node.number, &own);
}

Branch branch_of(const NamedMachine& named) {
  const Machine& machine = named.machine;
  const auto with_model = [](const std::string& model) { return model.empty() ? "" : model + ", "; };
  const auto is_in = [](const NumaNode& node, const Package& package) {
    return !node.cpus.empty() && contains(package.cpus, node.cpus);
  };
  std::int64_t memory = 0;
  for (const NumaNode& node : machine.numa_nodes) memory += node.memory_gib;
  Branch branch{roda::format("machine {}: {}{}, {}{}", named.name, with_model(machine.model),
                             counted(machine.cores.size(), "core"), counted(machine.cpus.size(), "thread"),
                             memory > 0 ? roda::format(", {} GiB", memory) : "")};
  for (std::size_t i = 0; i < machine.packages.size(); ++i) {
    const Package& package = machine.packages[i];
    Branch& own = branch.add(roda::format("package {}: {}{}", i, with_model(package.model),
                                          counted(cores_within(machine, package.cpus), "core")));
    for (const NumaNode& node : machine.numa_nodes) {
      if (is_in(node, package)) add_node(machine, node, &own);
    }
  }
  // A node that spans packages, or has memory alone.
  for (const NumaNode& node : machine.numa_nodes) {
    if (std::ranges::none_of(machine.packages, [&](const auto& p) { return is_in(node, p); })) {
      add_node(machine, node, &branch);
    }
  }
  add_devices(machine, -1, &branch);
  add_reach(machine, &branch);
  for (const auto& [what, why] : machine.absent) branch.add(roda::format("not known: {}: {}", what, why));
  for (const std::string& source : machine.sources) branch.add("source: " + source);
  return branch;
}

std::string binding_text(const Binding& binding) {
  if (binding.cpus.empty()) return "binding unknown";
  std::string text = "cpus " + print_cpus(binding.cpus);
  if (binding.cpu_limit > 0) text += roda::format(", limited to {:.3g} cores' worth of time", binding.cpu_limit);
  return text;
}

// Ranks with one binding are in one line.
Branch branch_of(const Topology& topology, const Host& host) {
  const bool is_shared_name =
      std::ranges::count_if(topology.hosts, [&](const Host& other) { return other.name == host.name; }) > 1;
  const std::string place = is_shared_name && !host.place.empty() ? roda::format(" ({})", host.place) : "";
  Branch branch{roda::format("{}{}: rank{} {}, machine {}", host.name, place, plural(host.ranks.size()),
                             print_cpus(host.ranks), topology.machines[at(host.machine)].name)};
  for (std::size_t i = 0; !topology.bindings.empty() && i < host.ranks.size();) {
    const Binding& binding = topology.bindings[at(host.ranks[i])];
    std::vector<int> alike;
    while (i < host.ranks.size() && topology.bindings[at(host.ranks[i])] == binding) alike.push_back(host.ranks[i++]);
    branch.add(roda::format("rank{} {}: {}", plural(alike.size()), print_cpus(alike), binding_text(binding)));
  }
  return branch;
}

}  // namespace

std::string size_text(std::int64_t kib) {
  return kib >= 1024 && kib % 1024 == 0 ? roda::format("{} MiB", kib / 1024) : roda::format("{} KiB", kib);
}

std::string print_rank(const Topology& topology, int rank) {
  const Numbers& numbers = topology.rank(rank);
  return roda::format("rank {} of {}, local {} of {}, cross {} of {}, {}\n", rank, topology.size(), numbers.local_rank,
                      topology.local_size(rank), numbers.cross_rank, topology.cross_size(rank),
                      topology.is_homogeneous() ? "homogeneous" : "not homogeneous");
}

std::string print(const Topology& topology) {
  std::string out;
  if (!topology.hosts.empty()) {
    Branch job{roda::format("{} on {}, {} of machine", counted(at(topology.size()), "rank"),
                            counted(topology.hosts.size(), "host"), counted(topology.machines.size(), "kind"))};
    for (std::size_t i = 0; i < std::min(topology.hosts.size(), kMostHosts); ++i) {
      job.children.push_back(branch_of(topology, topology.hosts[i]));
    }
    if (topology.hosts.size() > kMostHosts) {
      job.add(roda::format("and {} more hosts", topology.hosts.size() - kMostHosts));
    }
    out = render(job);
  }
  for (const NamedMachine& named : topology.machines) out += render(branch_of(named));
  return out;
}

}  // namespace roda::topology
