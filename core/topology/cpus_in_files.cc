#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "core/topology/cpus.h"

namespace roda::topology {

namespace {

constexpr const char* kCpus = "/sys/devices/system/cpu";
constexpr const char* kNodes = "/sys/devices/system/node";

std::string cpu_folder(int cpu) { return fmt::format("{}/cpu{}", kCpus, cpu); }

// The set in a file, without CPUs that are offline.
CpuSet read_set(const KernelFiles& files, const std::string& path, const CpuSet& online) {
  CpuSet set;
  return parse_cpus(files.line(path), &set) ? intersect(set, online) : CpuSet();
}

// Adds a set that several CPUs name when the first of them does.
void add(int cpu, CpuSet set, std::vector<CpuSet>* sets) {
  if (!set.empty() && set.front() == cpu) sets->push_back(std::move(set));
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

void read_caches(const KernelFiles& files, int cpu, const CpuSet& online, Caches* caches) {
  const std::string folder = cpu_folder(cpu) + "/cache";
  for (const std::string& name : files.names(folder)) {
    const std::string index = folder + "/" + name;
    if (!name.starts_with("index") || files.line(index + "/type") == "Instruction") continue;
    const int level = static_cast<int>(files.number(index + "/level", 0));
    const std::int64_t kib = cache_kib(files.line(index + "/size"));
    if (level < 1 || level > 5) continue;
    add(cpu, read_set(files, index + "/shared_cpu_list", online), &(*caches)[{level, kib}]);
  }
}

void read_nodes(const KernelFiles& files, Machine* machine) {
  for (const std::string& name : files.names(kNodes)) {
    if (!name.starts_with("node") || name.find_first_not_of("0123456789", 4) != std::string::npos) continue;
    const std::string folder = fmt::format("{}/{}", kNodes, name);
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
  std::sort(machine->numa_nodes.begin(), machine->numa_nodes.end(),
            [](const NumaNode& a, const NumaNode& b) { return a.number < b.number; });
}

}  // namespace

Status find_cpus_in_files(const KernelFiles& files, Machine* machine) {
  if (!parse_cpus(files.line(std::string(kCpus) + "/online"), &machine->cpus) || machine->cpus.empty()) {
    return Status::unavailable(std::string(kCpus) + "/online can't be read");
  }
  std::vector<CpuSet> packages;
  Caches caches;
  for (const int cpu : machine->cpus) {
    const std::string folder = cpu_folder(cpu) + "/topology";
    add(cpu, read_set(files, folder + "/thread_siblings_list", machine->cpus), &machine->cores);
    add(cpu, read_set(files, folder + "/core_siblings_list", machine->cpus), &packages);
    read_caches(files, cpu, machine->cpus, &caches);
  }
  for (CpuSet& package : packages) machine->packages.push_back({std::move(package), ""});
  for (auto& [key, groups] : caches) machine->caches.push_back({key.first, key.second, std::move(groups)});
  read_nodes(files, machine);
  return {};
}

}  // namespace roda::topology
