#include <nlohmann/json.hpp>

#include "core/topology/json.h"
#include "plugins/base/format.h"

namespace roda::topology {
namespace {

using nlohmann::json;

constexpr std::size_t kMostDifferences = 3;

json comparable(const Machine& machine) {
  json value = json::parse(to_json(machine));
  value.erase("sources");
  return value;
}

// Where the two come from, and what was found so far.
struct Report {
  const std::string& here;
  const std::string& there;
  std::vector<std::string> lines;
};

std::string shown(const json& value) { return value.is_null() ? "missing" : value.dump(); }

void compare(const json& a, const json& b, const std::string& path, Report* report) {
  if (report->lines.size() >= kMostDifferences || a == b) return;
  const bool are_arrays = a.is_array() && b.is_array();
  if (a.is_object() && b.is_object()) {
    json both = a;
    both.update(b);
    for (const auto& [key, ignored] : both.items()) {
      compare(a.value(key, json()), b.value(key, json()), path + "/" + key, report);
    }
  } else if (are_arrays && a.size() == b.size()) {
    for (std::size_t i = 0; i < a.size(); ++i) compare(a[i], b[i], roda::format("{}/{}", path, i), report);
  } else if (are_arrays) {
    report->lines.push_back(
        roda::format("{} has {} entries {} and {} {}", path, a.size(), report->here, b.size(), report->there));
  } else {
    report->lines.push_back(
        roda::format("{} is {} {} and {} {}", path, shown(a), report->here, shown(b), report->there));
  }
}

// What places ranks.
Machine places(const Machine& machine) {
  Machine bare;
  if (machine.absent.contains("cpus") || machine.absent.contains("machine")) return bare;
  bare.cpus = machine.cpus;
  bare.cores = machine.cores;
  for (const Package& package : machine.packages) bare.packages.push_back({package.cpus, ""});
  for (const NumaNode& node : machine.numa_nodes) bare.numa_nodes.push_back({node.number, node.cpus, 0, {}});
  for (const CacheLevel& cache : machine.caches) bare.caches.push_back({cache.level, 0, cache.shared_by});
  return bare;
}

template <typename List>
void drop_unless_both(List* a, List* b) {
  if (!a->empty() && !b->empty()) return;
  a->clear();
  b->clear();
}

}  // namespace

std::string difference(const Machine& a, const Machine& b, const std::string& here, const std::string& there) {
  Report report{here, there, {}};
  compare(comparable(a), comparable(b), "", &report);
  return roda::join(report.lines, "; ");
}

std::string contradiction(const Machine& a, const Machine& b, const std::string& here, const std::string& there) {
  Machine first = places(a), second = places(b);
  drop_unless_both(&first.cpus, &second.cpus);
  drop_unless_both(&first.cores, &second.cores);
  drop_unless_both(&first.packages, &second.packages);
  drop_unless_both(&first.numa_nodes, &second.numa_nodes);
  drop_unless_both(&first.caches, &second.caches);
  return difference(first, second, here, there);
}

}  // namespace roda::topology
