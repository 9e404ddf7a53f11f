#include "algorithms/schedule/sim/trace.h"

#include <algorithm>

namespace roda::sim {

std::vector<Record> Trace::critical_path() const {
  std::vector<Record> path;
  if (records.empty()) return path;
  const auto last =
      std::max_element(records.begin(), records.end(), [](const Record& a, const Record& b) { return a.end < b.end; });
  for (auto at = static_cast<std::int32_t>(last - records.begin()); at >= 0;) {
    path.push_back(records[static_cast<std::size_t>(at)]);
    at = path.back().cause;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace roda::sim
