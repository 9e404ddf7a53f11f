#include "tools/sim/model/trace.h"

#include <algorithm>
#include <map>

namespace roda::sim {

std::vector<Record> Trace::critical_path() const {
  std::vector<Record> path;
  if (records.empty()) return path;
  const auto last = std::ranges::max_element(records, [](const Record& a, const Record& b) { return a.end < b.end; });
  for (auto at = static_cast<std::int32_t>(last - records.begin()); at >= 0;) {
    path.push_back(records[static_cast<std::size_t>(at)]);
    at = path.back().cause;
  }
  std::ranges::reverse(path);
  return path;
}

std::vector<PathStep> path_steps(const Trace& trace, const Actors& actors, const Cluster& cluster) {
  std::vector<PathStep> steps;
  for (const Record& record : trace.critical_path()) {
    const Actor& actor = actors.actors[static_cast<std::size_t>(record.actor)];
    PathStep step;
    step.rank = actor.rank;
    step.stage = record.stage;
    step.piece = record.piece;
    step.begin_us = static_cast<double>(record.begin) / kPicosecondsPerMicrosecond;
    step.end_us = static_cast<double>(record.end) / kPicosecondsPerMicrosecond;
    step.what = record.wire ? "wire" : schedule::step_name(record.kind);
    if (record.slot >= 0) {
      const Slot& slot = actor.slots[static_cast<std::size_t>(record.slot)];
      step.peer = slot.rank;
      if (record.wire) step.level = cluster.levels[static_cast<std::size_t>(slot.level)].name;
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

std::vector<PathShare> path_shares(const std::vector<PathStep>& path) {
  std::map<std::string, double> shares;
  double reached = 0;
  for (const PathStep& step : path) {
    if (step.begin_us > reached) shares["waits"] += step.begin_us - reached;
    const std::string what = step.level.empty() ? step.what : step.what + " " + step.level;
    shares[what] += std::max(0.0, step.end_us - std::max(step.begin_us, reached));
    reached = std::max(reached, step.end_us);
  }
  std::vector<PathShare> sorted;
  for (const auto& [what, us] : shares) {
    if (us > 0) sorted.push_back({what, us});
  }
  std::ranges::sort(sorted, [](const auto& a, const auto& b) { return a.us > b.us; });
  return sorted;
}

}  // namespace roda::sim
