#include "algorithms/topology/cpu_set.h"

#include <algorithm>
#include <charconv>
#include <iterator>

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

}  // namespace roda::topology
