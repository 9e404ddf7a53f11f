#include <algorithm>
#include <map>
#include <sstream>

#include "core/topology/cpus.h"
#include "plugins/base/format.h"

namespace roda::topology {

namespace {

constexpr const char* kCpus = "/sys/devices/system/cpu";
constexpr const char* kNodes = "/sys/devices/system/node";

std::string cpu_folder(int cpu) { return roda::format("{}/cpu{}", kCpus, cpu); }

// The set in a file, without CPUs that are offline.
CpuSet read_set(const KernelFiles& files, const std::string& path, const CpuSet& online) {
  CpuSet set;
  return parse_cpus(files.line(path), &set) ? intersect(set, online) : CpuSet();
}

// "1024K" in KiB.
std::int64_t cache_kib(const std::string& text) {
  std::istringstream in(text);
  std::int64_t size = 0;
  char unit = 'K';
  in >> size >> unit;
  return unit == 'M' ? size * 1024 : size;
}

using Caches = std::map<std::pair<int, std::int64_t>, std::vector<CpuSet>>;  // by level and size

// Those that the CPU is the first to share.
void read_caches(const KernelFiles& files, int cpu, const CpuSet& online, Caches* caches) {
  for (int i = 0;; ++i) {
    const std::string index = roda::format("{}/cache/index{}", cpu_folder(cpu), i);
    CpuSet group = read_set(files, index + "/shared_cpu_list", online);
    if (group.empty()) return;
    if (group.front() != cpu || files.line(index + "/type") == "Instruction") continue;
    const int level = static_cast<int>(files.number(index + "/level", 0));
    const std::int64_t kib = cache_kib(files.line(index + "/size"));
    if (level >= 1 && level <= 5) (*caches)[{level, kib}].push_back(std::move(group));
  }
}

// Packages and cores by their first CPU, caches by the first CPU of a core: a file is opened once for each of them, not
// once for each CPU. Machines have hundreds.
void read_cores(const KernelFiles& files, Machine* machine, Caches* caches) {
  std::vector<bool> has_core(kMostCpus), has_package(kMostCpus);
  for (const int cpu : machine->cpus) {
    if (has_core[static_cast<std::size_t>(cpu)]) continue;
    const std::string folder = cpu_folder(cpu) + "/topology";
    CpuSet core = read_set(files, folder + "/thread_siblings_list", machine->cpus);
    for (const int sibling : core) has_core[static_cast<std::size_t>(sibling)] = true;
    if (!core.empty()) machine->cores.push_back(std::move(core));
    read_caches(files, cpu, machine->cpus, caches);
    if (has_package[static_cast<std::size_t>(cpu)]) continue;
    CpuSet package = read_set(files, folder + "/core_siblings_list", machine->cpus);
    for (const int sibling : package) has_package[static_cast<std::size_t>(sibling)] = true;
    if (!package.empty()) machine->packages.push_back({std::move(package), ""});
  }
}

void read_nodes(const KernelFiles& files, Machine* machine) {
  for (const std::string& name : files.names(kNodes)) {
    if (!name.starts_with("node") || name.find_first_not_of("0123456789", 4) != std::string::npos) continue;
    const std::string folder = roda::format("{}/{}", kNodes, name);
    NumaNode node;
    node.number = std::atoi(name.c_str() + 4);
    node.cpus = read_set(files, folder + "/cpulist", machine->cpus);
    std::int64_t kib = 0;  // "Node 0 MemTotal:  24689852 kB"
    std::string word;
    std::istringstream memory(files.line(folder + "/meminfo"));
    memory >> word >> word >> word >> kib;
    node.memory_gib = (kib + (1 << 19)) >> 20;
    std::istringstream distances(files.line(folder + "/distance"));
    for (int distance = 0; distances >> distance;) node.distances.push_back(distance);
    machine->numa_nodes.push_back(std::move(node));
  }
  if (machine->numa_nodes.size() == 1) machine->numa_nodes.front().distances.clear();  // they say nothing
  std::sort(machine->numa_nodes.begin(), machine->numa_nodes.end(),
            [](const NumaNode& a, const NumaNode& b) { return a.number < b.number; });
}

}  // namespace

Status find_cpus_in_files(const KernelFiles& files, Machine* machine) {
  if (!parse_cpus(files.line(std::string(kCpus) + "/online"), &machine->cpus) || machine->cpus.empty()) {
    return Status::unavailable(std::string(kCpus) + "/online can't be read");
  }
  Caches caches;
  read_cores(files, machine, &caches);
  for (auto& [key, groups] : caches) machine->caches.push_back({key.first, key.second, std::move(groups)});
  read_nodes(files, machine);
  return {};
}

}  // namespace roda::topology
