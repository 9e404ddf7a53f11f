#include "algorithms/topology/machine.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <tuple>

namespace roda::topology {
namespace {

// Takes a number off the front of the text.
bool take_number(std::string_view* text, int* number) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc() || *number < 0 || *number >= kMostCpus) return false;
  text->remove_prefix(static_cast<std::size_t>(end - text->data()));
  return true;
}

bool take(std::string_view* text, char c) {
  if (text->empty() || text->front() != c) return false;
  text->remove_prefix(1);
  return true;
}

std::size_t common_bridges(const PciPlace& a, const PciPlace& b) {
  const auto [first, second] = std::mismatch(a.bridges.begin(), a.bridges.end(), b.bridges.begin(), b.bridges.end());
  return static_cast<std::size_t>(first - a.bridges.begin());
}

// "0000:17:00" of "0000:17:00.0": the functions of one device differ in the last digit.
std::string without_function(const std::string& address) { return address.substr(0, address.rfind('.')); }

}  // namespace

std::string print_cpus(const CpuSet& cpus) {
  std::string out;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    out += (i > 0 ? "," : "") + std::to_string(cpus[i]);
    if (last > i) out += "-" + std::to_string(cpus[last]);
    i = last + 1;
  }
  return out;
}

bool parse_cpus(std::string_view text, CpuSet* cpus) {
  CpuSet found;
  while (!text.empty()) {
    int first = 0;
    if (!found.empty() && !take(&text, ',')) return false;
    if (!take_number(&text, &first)) return false;
    int last = first;
    if (take(&text, '-') && !take_number(&text, &last)) return false;
    if (last < first || (!found.empty() && first <= found.back())) return false;
    for (int cpu = first; cpu <= last; ++cpu) found.push_back(cpu);
  }
  *cpus = std::move(found);
  return true;
}

bool contains(const CpuSet& all, const CpuSet& some) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

CpuSet intersect(const CpuSet& a, const CpuSet& b) {
  CpuSet both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

PciDistance distance(const PciPlace& a, const PciPlace& b) {
  if (a.address.empty() || b.address.empty()) return PciDistance::kSystem;
  if (without_function(a.address) == without_function(b.address)) return PciDistance::kSameDevice;
  const std::size_t common = common_bridges(a, b);
  // bridges[0] is the host bridge, bridges[1] the root port: two devices behind one host bridge only share no switch.
  if (common >= 2) {
    const bool same = common == a.bridges.size() && common == b.bridges.size();
    // A switch has a port above and one below for each device: siblings differ in that one alone.
    const bool siblings = common + 1 >= a.bridges.size() && common + 1 >= b.bridges.size();
    return same || siblings ? PciDistance::kSameSwitch : PciDistance::kSwitches;
  }
  if (common == 1) return PciDistance::kHostBridge;
  return a.numa_node >= 0 && a.numa_node == b.numa_node ? PciDistance::kNumaNode : PciDistance::kSystem;
}

const char* distance_name(PciDistance distance) {
  static constexpr const char* kNames[] = {"one device",      "one switch",    "several switches",
                                           "one host bridge", "one NUMA node", "across the machine"};
  return kNames[static_cast<int>(distance)];
}

const CacheLevel* shared_cache(const Machine& machine) {
  const CacheLevel* found = nullptr;
  for (const CacheLevel& cache : machine.caches) {
    const bool is_shared = std::ranges::any_of(cache.shared_by, [&](const CpuSet& group) {
      return std::ranges::count_if(machine.cores, [&](const CpuSet& core) { return contains(group, core); }) > 1;
    });
    if (is_shared && (found == nullptr || cache.level >= found->level)) found = &cache;
  }
  return found;
}

int nvlink_gbytes(int version) {
  static constexpr int kGbytes[] = {0, 20, 25, 25, 25, 50};
  return version > 0 && version < static_cast<int>(std::size(kGbytes)) ? kGbytes[version] : 0;
}

int nearest_rdma_device(const Machine& machine, int gpu, const std::vector<int>& taken) {
  int best = -1;
  std::tuple<PciDistance, int> least;
  const PciPlace& place = machine.gpus.at(static_cast<std::size_t>(gpu)).pci;
  for (std::size_t i = 0; i < machine.rdma_devices.size(); ++i) {
    const RdmaDevice& device = machine.rdma_devices[i];
    if (std::ranges::none_of(device.ports, [](const RdmaPort& p) { return p.is_active; })) continue;
    const std::tuple cost(distance(place, device.pci), taken.empty() ? 0 : taken[i]);
    if (best < 0 || cost < least) {
      best = static_cast<int>(i);
      least = cost;
    }
  }
  return best;
}

}  // namespace roda::topology
