#include "core/topology/kernel_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>

#include "plugins/base/format.h"
#include "plugins/base/unique_fd.h"

namespace roda::topology {
namespace {

// "0000:17:00.0"
bool is_pci_address(const std::string& name) {
  const std::size_t length = name.size();
  return length >= 12 && name[length - 2] == '.' && name[length - 5] == ':' && name[length - 8] == ':';
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

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

// Adds the caches of which the CPU is the first to share them.
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
  std::ranges::sort(machine->numa_nodes, [](const NumaNode& a, const NumaNode& b) { return a.number < b.number; });
}

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
  return {number, files.line(folder + "/link_layer"), rate_mbit(files.line(folder + "/rate")),
          files.line(folder + "/state").starts_with("4:")};
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

std::string KernelFiles::line(const std::string& path) const {
  // Hundreds of small files: no stream, no buffer.
  const UniqueFd file(::open((root_ + path).c_str(), O_RDONLY | O_CLOEXEC));
  char text[4096];
  const ssize_t bytes = file ? ::read(file.get(), text, sizeof text) : -1;
  if (bytes <= 0) return "";
  const std::string_view whole(text, static_cast<std::size_t>(bytes));
  return trimmed(std::string(whole.substr(0, whole.find('\n'))));
}

std::vector<std::string> KernelFiles::lines(const std::string& path) const {
  std::ifstream in(root_ + path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::int64_t KernelFiles::number(const std::string& path, std::int64_t otherwise) const {
  const std::string text = line(path);
  std::int64_t value = 0;
  return std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc() ? value : otherwise;
}

bool KernelFiles::exists(const std::string& path) const {
  std::error_code ignored;
  return std::filesystem::exists(root_ + path, ignored);
}

std::vector<std::string> KernelFiles::names(const std::string& folder) const {
  std::vector<std::string> found;
  std::error_code error;
  std::filesystem::directory_iterator entry(root_ + folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    found.push_back(entry->path().filename().string());
  }
  std::ranges::sort(found);
  return found;
}

PciPlace KernelFiles::pci_place(const std::string& path) const {
  PciPlace place;
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(root_ + path, error);
  if (error) return place;
  std::filesystem::path so_far, device;
  for (const std::filesystem::path& part : real) {
    so_far /= part;
    const std::string name = part.string();
    if (is_pci_address(name)) {
      if (!place.address.empty()) place.bridges.push_back(place.address);
      place.address = name;
      device = so_far;
    } else if (name.starts_with("pci") && place.bridges.empty() && place.address.empty()) {
      place.bridges.push_back(name);
    }
  }
  if (place.address.empty()) return {};
  int node = -1;
  if (std::ifstream(device / "numa_node") >> node && node >= 0) place.numa_node = node;
  return place;
}

// --- packages, NUMA nodes, cores and caches --------------------------------------------------------------------------

Status find_cpus(const KernelFiles& files, Machine* machine) {
  if (!parse_cpus(files.line(std::string(kCpus) + "/online"), &machine->cpus) || machine->cpus.empty()) {
    return Status::unavailable(std::string(kCpus) + "/online can't be read");
  }
  Caches caches;
  read_cores(files, machine, &caches);
  for (auto& [key, groups] : caches) machine->caches.push_back({key.first, key.second, std::move(groups)});
  read_nodes(files, machine);
  return {};
}

void find_cpu_models(const KernelFiles& files, Machine* machine) {
  int cpu = -1;  // whose lines these are
  for (const std::string& line : files.lines("/proc/cpuinfo")) {
    const std::size_t colon = std::min(line.find(':'), line.size());
    const std::string name = trimmed(line.substr(0, colon));
    const std::string value = trimmed(line.substr(std::min(colon + 1, line.size())));
    if (name == "processor") cpu = std::atoi(value.c_str());
    if (name != "model name") continue;
    for (Package& package : machine->packages) {
      if (std::ranges::binary_search(package.cpus, cpu)) package.model = value;
    }
  }
}

// --- devices ---------------------------------------------------------------------------------------------------------

void find_nics(const KernelFiles& files, Machine* machine) {
  std::vector<Nic> found;
  for (const std::string& name : files.names("/sys/class/net")) {
    if (files.exists("/sys/class/net/" + name + "/operstate") && name != "lo") found.push_back(read_nic(files, name));
  }
  const bool has_physical = std::ranges::any_of(found, [](const Nic& nic) { return nic.is_physical; });
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
