// Planner: what carries Adasum. It has one algorithm, over messages; what is chosen is the transport.
#include <algorithm>

#include "algorithms/adasum/halving.h"
#include "algorithms/schedule/schedule.h"
#include "core/plan/planner.h"

namespace roda::engine {
namespace {

// Why it can't work between hosts alone.
std::string obstacle_across(const PlanQuery& q) {
  if (q.hosts <= 1 || q.shape == nullptr) return "all ranks are on one host";
  if (!q.shape->has_even_hosts()) return "the hosts have different numbers of ranks";
  if (!adasum::is_power_of_two(q.hosts) || !adasum::is_power_of_two(q.size / q.hosts)) {
    return "it needs a power of two of hosts, and of ranks on each";
  }
  return "";
}

}  // namespace

// Those that reach only this host first, then in the order in which the selection table would have them carry an
// allreduce by messages.
std::vector<select::Verdict> Planner::adasum_candidates(const PlanQuery& q, bool across_hosts) const {
  PlanQuery as_allreduce = q;
  as_allreduce.collective = RODA_ALLREDUCE;
  as_allreduce.op = RODA_SUM;
  std::vector<std::string> carriers;
  for (const select::Verdict& v : candidates(as_allreduce)) {
    const auto* algorithm = schedule::find_algorithm(schedule::Collective::kAllreduce, v.option.algorithm);
    const bool by_messages = algorithm != nullptr && algorithm->needs == schedule::kNeedsMessages;
    const bool is_new = std::find(carriers.begin(), carriers.end(), v.option.transport) == carriers.end();
    if (v.usable && by_messages && is_new) carriers.push_back(v.option.transport);
  }
  std::stable_partition(carriers.begin(), carriers.end(), [&](const std::string& name) {
    return std::any_of(transports_.begin(), transports_.end(), [&](const roda_transport* t) {
      return name == t->name && (t->capabilities & RODA_CAP_SAME_HOST) != 0;
    });
  });
  const std::string size_refused =
      adasum::is_power_of_two(q.size) ? "" : "Adasum does not run on " + std::to_string(q.size) + " ranks";
  std::vector<select::Verdict> verdicts;
  for (const char* algorithm : {kVectorHalvingAcross, kVectorHalving}) {
    const bool across = algorithm == kVectorHalvingAcross;
    if (across && !across_hosts) continue;
    const std::string reason = across ? obstacle_across(q) : size_refused;
    const std::string chosen = across ? "averages inside hosts" : "the first that carries messages";
    for (const std::string& name : carriers) {
      verdicts.push_back({{name, algorithm}, reason.empty(), reason.empty() ? chosen : reason});
    }
  }
  return verdicts;
}

}  // namespace roda::engine
