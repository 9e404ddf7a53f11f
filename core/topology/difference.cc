#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/topology/json.h"

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
        fmt::format("{} has {} entries {} and {} {}", path, a.size(), report->here, b.size(), report->there));
    return;
  }
  for (std::size_t i = 0; i < a.size(); ++i) compare(&a[i], &b[i], fmt::format("{}/{}", path, i), report);
}

void compare(const json* a, const json* b, const std::string& path, Report* report) {
  if (report->lines.size() >= kMostDifferences || (a != nullptr && b != nullptr && *a == *b)) return;
  if (a != nullptr && b != nullptr && a->is_object() && b->is_object()) return compare_objects(*a, *b, path, report);
  if (a != nullptr && b != nullptr && a->is_array() && b->is_array()) return compare_arrays(*a, *b, path, report);
  report->lines.push_back(fmt::format("{} is {} {} and {} {}", path, shown(a), report->here, shown(b), report->there));
}

}  // namespace

std::string difference(const Machine& a, const Machine& b, const std::string& here, const std::string& there) {
  const json first = comparable(a), second = comparable(b);
  Report report{here, there, {}};
  compare(&first, &second, "", &report);
  return fmt::format("{}", fmt::join(report.lines, "; "));
}

}  // namespace roda::topology
