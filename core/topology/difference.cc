#include <algorithm>
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

// What places ranks.
Machine places(const Machine& machine) {
  Machine bare;
  if (machine.absent.contains("cpus") || machine.absent.contains("machine")) return bare;
  bare.cpus = machine.cpus;
  bare.cores = machine.cores;
  bare.packages = machine.packages;
  for (Package& package : bare.packages) package.model.clear();
  for (const NumaNode& node : machine.numa_nodes) bare.numa_nodes.push_back({node.number, node.cpus, 0, {}});
  bare.caches = machine.caches;
  for (CacheLevel& level : bare.caches) level.kib = 0;
  return bare;
}

template <typename List>
void drop_unless_both(List* a, List* b) {
  if (!a->empty() && !b->empty()) return;
  a->clear();
  b->clear();
}

std::string shown(const json* value) { return value == nullptr ? "missing" : value->dump(); }

const json* member(const json& value, const std::string& key) {
  const auto found = value.find(key);
  return found == value.end() ? nullptr : &*found;
}

void compare(const json* a, const json* b, const std::string& path, Report* report);

void compare_objects(const json& a, const json& b, const std::string& path, Report* report) {
  json both = a;
  both.update(b);
  for (const auto& [key, ignored] : both.items()) {
    compare(member(a, key), member(b, key), path + "/" + key, report);
  }
}

void compare_arrays(const json& a, const json& b, const std::string& path, Report* report) {
  if (a.size() != b.size()) {
    report->lines.push_back(
        roda::format("{} has {} entries {} and {} {}", path, a.size(), report->here, b.size(), report->there));
    return;
  }
  for (std::size_t i = 0; i < a.size(); ++i) compare(&a[i], &b[i], roda::format("{}/{}", path, i), report);
}

void compare(const json* a, const json* b, const std::string& path, Report* report) {
  if (report->lines.size() >= kMostDifferences || (a != nullptr && b != nullptr && *a == *b)) return;
  if (a != nullptr && b != nullptr && a->is_object() && b->is_object()) return compare_objects(*a, *b, path, report);
  if (a != nullptr && b != nullptr && a->is_array() && b->is_array()) return compare_arrays(*a, *b, path, report);
  report->lines.push_back(roda::format("{} is {} {} and {} {}", path, shown(a), report->here, shown(b), report->there));
}

}  // namespace

std::string difference(const Machine& a, const Machine& b, const std::string& here, const std::string& there) {
  const json first = comparable(a), second = comparable(b);
  Report report{here, there, {}};
  compare(&first, &second, "", &report);
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
