#include "core/engine/planner.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "algorithms/schedule/schedule.h"
#include "core/execute/program.h"

namespace roda::engine {
namespace {

std::uint32_t needs_met(std::uint64_t capabilities) {
  std::uint32_t met = 0;
  if (capabilities & RODA_CAP_P2P) met |= schedule::kNeedsMessages;
  if (capabilities & RODA_CAP_SIGNAL) met |= schedule::kNeedsSignals;
  if (capabilities & RODA_CAP_GET) met |= schedule::kNeedsGet;
  if (capabilities & RODA_CAP_PUT) met |= schedule::kNeedsPut;
  return met;
}

select::Query to_select(const PlanQuery& q) {
  select::Query query;
  query.collective = static_cast<schedule::Collective>(q.collective);
  query.memory = q.memory_kind == RODA_MEMORY_CUDA ? select::Memory::kCuda : select::Memory::kHost;
  query.bytes = q.bytes;
  query.size = q.size;
  return query;
}

}  // namespace

Planner::Planner(select::Table table, std::vector<const roda_transport*> transports)
    : table_(std::move(table)), transports_(std::move(transports)) {}

std::vector<select::Verdict> Planner::candidates(const PlanQuery& q) const {
  std::vector<select::Offer> offers;
  for (const roda_transport* t : transports_) {
    if ((t->capabilities & RODA_CAP_SAME_HOST) != 0 && !q.same_host) continue;
    select::Offer offer;
    offer.transport = t->name;
    offer.needs_met = needs_met(t->capabilities);
    offer.native = (t->capabilities & RODA_CAP_NATIVE) != 0 && t->collective_supported != nullptr &&
                   t->collective_supported(nullptr, q.collective, q.dtype, q.op, q.memory_kind) == 1;
    offers.push_back(std::move(offer));
  }
  return table_.rank(to_select(q), offers);
}

Status Planner::plan(const PlanQuery& q, const Plan** plan) {
  const Key key{q.collective, q.dtype, q.op, q.memory_kind, q.bytes, q.size, q.same_host};
  if (const auto it = plans_.find(key); it != plans_.end()) {
    *plan = &it->second;
    return {};
  }
  const std::vector<select::Verdict> verdicts = candidates(q);
  std::string refused;
  for (const select::Verdict& v : verdicts) {
    if (!v.usable) {
      refused += "; " + v.option.transport + "/" + v.option.algorithm + ": " + v.reason;
      continue;
    }
    const auto t = std::find_if(transports_.begin(), transports_.end(),
                                [&](const roda_transport* x) { return v.option.transport == x->name; });
    if (plans_.size() >= kMostPlans) plans_.clear();
    Plan& made = plans_[key];
    made.stages = {{*t, v.option.algorithm}};
    *plan = &made;
    return {};
  }
  return Status::unsupported("No transport can run " + std::string(roda_collective_name(q.collective)) + " of " +
                             std::to_string(q.bytes) + " bytes of " + roda_dtype_name(q.dtype) + " over " +
                             std::to_string(q.size) + " ranks" +
                             (refused.empty() ? "; no rule of the selection table applies" : refused) +
                             ". `roda-info` lists the transports and why each is or isn't usable.");
}

bool Planner::fuses_without_copies(const PlanQuery& q) {
  const Plan* chosen = nullptr;
  if (!plan(q, &chosen).ok()) return false;
  const auto collective = static_cast<schedule::Collective>(q.collective);
  const schedule::Algorithm* algorithm = schedule::find_algorithm(collective, chosen->stages.front().algorithm);
  return algorithm != nullptr && execute::takes_buckets(*algorithm);
}

std::vector<const roda_transport*> in_order_of_preference(std::vector<const roda_transport*> usable,
                                                          const std::string& named) {
  std::erase_if(usable, [&](const roda_transport* t) {
    return named.empty() ? (t->capabilities & RODA_CAP_IN_PROCESS) != 0 : named != t->name;
  });
  std::sort(usable.begin(), usable.end(), [](const roda_transport* a, const roda_transport* b) {
    const bool a_near = (a->capabilities & RODA_CAP_SAME_HOST) != 0;
    const bool b_near = (b->capabilities & RODA_CAP_SAME_HOST) != 0;
    return a_near != b_near ? a_near : std::string_view(a->name) < std::string_view(b->name);
  });
  return usable;
}

std::string explain(const Planner& planner, const PlanQuery& q, bool as_json) {
  const auto verdicts = planner.candidates(q);
  const auto chosen = std::find_if(verdicts.begin(), verdicts.end(), [](const auto& v) { return v.usable; });
  auto fate = [&](const select::Verdict& v) {
    if (!v.usable) return std::string("not usable: ") + v.reason;
    return (&v == &*chosen ? "runs: " : "in reserve: ") + v.reason;
  };
  if (as_json) {
    nlohmann::json j{{"collective", roda_collective_name(q.collective)},
                     {"bytes", q.bytes},
                     {"ranks", q.size},
                     {"same_host", q.same_host}};
    j["candidates"] = nlohmann::json::array();
    for (const auto& v : verdicts) {
      j["candidates"].push_back({{"transport", v.option.transport},
                                 {"algorithm", v.option.algorithm},
                                 {"usable", v.usable},
                                 {"chosen", chosen != verdicts.end() && &v == &*chosen},
                                 {"reason", v.reason}});
    }
    return j.dump(2);
  }
  std::ostringstream out;
  out << roda_collective_name(q.collective) << " of " << q.bytes << " bytes of " << roda_dtype_name(q.dtype) << " over "
      << q.size << (q.size == 1 ? " rank" : " ranks") << (q.same_host ? " of one host" : " on several hosts") << ":\n";
  if (q.size == 1) out << "  one rank: nothing travels, the input is copied to the output\n";
  for (const auto& v : verdicts) {
    out << (v.usable && &v == &*chosen ? "  > " : "    ") << v.option.transport << '/' << v.option.algorithm << "  "
        << fate(v) << '\n';
  }
  if (chosen == verdicts.end()) out << "  nothing can run this\n";
  return out.str();
}

}  // namespace roda::engine
