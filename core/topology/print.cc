#include "core/topology/print.h"

#include <algorithm>

#include "plugins/base/format.h"

namespace roda::topology {

namespace {

constexpr std::size_t kMostHosts = 32;

void render_below(const Branch& branch, const std::string& margin, std::string* out) {
  for (std::size_t i = 0; i < branch.children.size(); ++i) {
    const bool is_last = i + 1 == branch.children.size();
    *out += roda::format("{}{}{}\n", margin, is_last ? "└─ " : "├─ ", branch.children[i].text);
    render_below(branch.children[i], margin + (is_last ? "   " : "│  "), out);
  }
}

std::string counted(std::size_t count, const char* what) {
  return roda::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::size_t cores_within(const Machine& machine, const CpuSet& cpus) {
  return static_cast<std::size_t>(std::count_if(machine.cores.begin(), machine.cores.end(),
                                                [&](const CpuSet& core) { return contains(cpus, core); }));
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
    const std::size_t cores = cores_within(machine, *inside.front());
    if (cores > 1) {
      for (const CpuSet* group : inside) {
        branch->children.push_back({roda::format("{} shared by {}: cpus {}", size,
                                                 counted(cores_within(machine, *group), "core"), print_cpus(*group)),
                                    {}});
      }
    } else {
      branch->children.push_back({roda::format("{} for each of {}", size, counted(inside.size(), "core")), {}});
    }
  }
}

Branch node_branch(const Machine& machine, const NumaNode& node) {
  Branch branch;
  branch.text =
      roda::format("NUMA node {}: {}cpus {}", node.number,
                   node.memory_gib > 0 ? roda::format("{} GiB, ", node.memory_gib) : "", print_cpus(node.cpus));
  add_caches(machine, node.cpus, &branch);
  for (Branch& device : device_branches(machine, node.number)) branch.children.push_back(std::move(device));
  return branch;
}

Branch package_branch(const Machine& machine, const Package& package, std::size_t index) {
  Branch branch;
  branch.text = roda::format("package {}: {}{}", index, package.model.empty() ? "" : package.model + ", ",
                             counted(cores_within(machine, package.cpus), "core"));
  for (const NumaNode& node : machine.numa_nodes) {
    if (!node.cpus.empty() && contains(package.cpus, node.cpus)) branch.children.push_back(node_branch(machine, node));
  }
  return branch;
}

std::string binding_text(const Binding& binding) {
  if (binding.cpus.empty()) return "binding unknown";
  std::string text = "cpus " + print_cpus(binding.cpus);
  if (binding.cpu_limit > 0) text += roda::format(", limited to {:.3g} cores' worth of time", binding.cpu_limit);
  return text;
}

// Ranks of a host, those with one binding in one line.
std::vector<Branch> rank_branches(const Topology& topology, const Host& host) {
  std::vector<Branch> branches;
  for (std::size_t i = 0; !topology.bindings.empty() && i < host.ranks.size();) {
    const Binding& binding = topology.bindings[static_cast<std::size_t>(host.ranks[i])];
    std::vector<int> alike;
    while (i < host.ranks.size() && topology.bindings[static_cast<std::size_t>(host.ranks[i])] == binding) {
      alike.push_back(host.ranks[i++]);
    }
    branches.push_back(
        {roda::format("rank{} {}: {}", alike.size() > 1 ? "s" : "", print_cpus(alike), binding_text(binding)), {}});
  }
  return branches;
}

Branch host_branch(const Topology& topology, const Host& host) {
  const bool is_shared_name = std::count_if(topology.hosts.begin(), topology.hosts.end(),
                                            [&](const Host& other) { return other.name == host.name; }) > 1;
  Branch branch;
  branch.text = roda::format("{}{}: rank{} {}, machine {}", host.name,
                             is_shared_name && !host.place.empty() ? roda::format(" ({})", host.place) : "",
                             host.ranks.size() > 1 ? "s" : "", print_cpus(host.ranks),
                             topology.machines[static_cast<std::size_t>(host.machine)].name);
  branch.children = rank_branches(topology, host);
  return branch;
}

}  // namespace

std::string size_text(std::int64_t kib) {
  return kib >= 1024 && kib % 1024 == 0 ? roda::format("{} MiB", kib / 1024) : roda::format("{} KiB", kib);
}

std::string render(const Branch& root) {
  std::string out = root.text + "\n";
  render_below(root, "", &out);
  return out;
}

Branch machine_branch(const NamedMachine& named) {
  const Machine& machine = named.machine;
  Branch branch;
  std::int64_t memory = 0;
  for (const NumaNode& node : machine.numa_nodes) memory += node.memory_gib;
  branch.text = roda::format("machine {}: {}{}, {}{}", named.name, machine.model.empty() ? "" : machine.model + ", ",
                             counted(machine.cores.size(), "core"), counted(machine.cpus.size(), "thread"),
                             memory > 0 ? roda::format(", {} GiB", memory) : "");
  for (std::size_t i = 0; i < machine.packages.size(); ++i) {
    branch.children.push_back(package_branch(machine, machine.packages[i], i));
  }
  // A node that spans packages, or has memory alone.
  for (const NumaNode& node : machine.numa_nodes) {
    const bool is_shown = std::any_of(machine.packages.begin(), machine.packages.end(), [&](const Package& package) {
      return !node.cpus.empty() && contains(package.cpus, node.cpus);
    });
    if (!is_shown) branch.children.push_back(node_branch(machine, node));
  }
  for (Branch& device : device_branches(machine, -1)) branch.children.push_back(std::move(device));
  for (Branch& line : gpu_branches(machine)) branch.children.push_back(std::move(line));
  for (const auto& [what, why] : machine.absent) {
    branch.children.push_back({roda::format("not known: {}: {}", what, why), {}});
  }
  for (const std::string& source : machine.sources) branch.children.push_back({"source: " + source, {}});
  return branch;
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
    Branch job;
    job.text = roda::format("{} on {}, {} of machine", counted(static_cast<std::size_t>(topology.size()), "rank"),
                            counted(topology.hosts.size(), "host"), counted(topology.machines.size(), "kind"));
    for (std::size_t i = 0; i < std::min(topology.hosts.size(), kMostHosts); ++i) {
      job.children.push_back(host_branch(topology, topology.hosts[i]));
    }
    if (topology.hosts.size() > kMostHosts) {
      job.children.push_back({roda::format("and {} more hosts", topology.hosts.size() - kMostHosts), {}});
    }
    out = render(job);
  }
  for (const NamedMachine& named : topology.machines) out += render(machine_branch(named));
  return out;
}

}  // namespace roda::topology
