#include "core/engine/planner.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <sstream>

#include "algorithms/schedule/schedule.h"
#include "algorithms/select/names.h"
#include "core/execute/options.h"
#include "core/execute/program.h"

namespace roda::engine {
namespace {

constexpr const char* kHierarchical = "hierarchical";
constexpr const char* kTwoStep = "two_step";
constexpr const char* kScopes[] = {"all", "host", "across"};

std::string lower_name(int collective) {
  std::string name = roda_collective_name(collective);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

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

Planner::Planner(select::Table table, std::vector<const roda_transport*> transports, Options options)
    : table_(std::move(table)), transports_(std::move(transports)), options_(options) {}

std::vector<select::Verdict> Planner::candidates(const PlanQuery& q) const {
  if (q.collective == RODA_ADASUM_ALLREDUCE) return adasum_candidates(q);
  std::vector<select::Offer> offers;
  for (const roda_transport* t : transports_) {
    if ((t->capabilities & RODA_CAP_SAME_HOST) != 0 && q.hosts > 1) continue;
    select::Offer offer;
    offer.transport = t->name;
    offer.needs_met = needs_met(t->capabilities);
    offer.active_windows = (t->capabilities & RODA_CAP_ACTIVE_WINDOWS) != 0;
    offer.native = (t->capabilities & RODA_CAP_NATIVE) != 0 && t->collective_supported != nullptr &&
                   t->collective_supported(nullptr, q.collective, q.dtype, q.op, q.memory_kind) == 1;
    offers.push_back(std::move(offer));
  }
  select::Offer levels;
  levels.transport = select::kLevels;
  for (const char* name : {kHierarchical, kTwoStep}) {
    if (select::is_composition(static_cast<schedule::Collective>(q.collective), name)) {
      levels.compositions[name] = obstacle(q, name);
    }
  }
  offers.push_back(std::move(levels));
  return table_.rank(to_select(q), offers);
}

Status Planner::plan(const PlanQuery& q, const Plan** plan) {
  if (const auto it = plans_.find(q); it != plans_.end()) {
    *plan = it->second.get();
    return {};
  }
  auto made = std::make_unique<Plan>();
  RODA_RETURN_IF_ERROR(choose(q, made.get()));
  made->text = made->describe();
  if (plans_.size() >= kMostPlans) plans_.clear();
  *plan = (plans_[q] = std::move(made)).get();
  return {};
}

Status Planner::choose(const PlanQuery& q, Plan* plan) const {
  std::string refused;
  for (const select::Verdict& v : candidates(q)) {
    if (v.usable) {
      *plan = plan_of(q, v.option);
      return {};
    }
    refused += "; " + v.option.transport + "/" + v.option.algorithm + ": " + v.reason;
  }
  return Status::unsupported("No transport can run " + std::string(roda_collective_name(q.collective)) + " of " +
                             std::to_string(q.bytes) + " bytes of " + roda_dtype_name(q.dtype) + " over " +
                             std::to_string(q.size) + " ranks" +
                             (refused.empty() ? "; no rule of the selection table applies" : refused) +
                             ". `roda-info` lists the transports and why each is or isn't usable.");
}

Plan Planner::plan_of(const PlanQuery& q, const select::Option& option) const {
  Plan plan;
  if (option.transport == select::kLevels) {
    static_cast<void>(compose(q, option.algorithm, &plan));
    return plan;
  }
  const auto t = std::find_if(transports_.begin(), transports_.end(),
                              [&](const roda_transport* x) { return option.transport == x->name; });
  plan.stages = {{Scope::kAll, q.collective, *t, option.algorithm}};
  return plan;
}

// The stage that the table chooses for a collective of that many bytes among the ranks in the scope.
Status Planner::add_stage(Scope scope, int collective, const PlanQuery& whole, Plan* plan) const {
  PlanQuery part = whole;
  part.collective = collective;
  part.columns = part.longest = part.row_size = 1;
  part.size = part.hosts = whole.hosts;
  if (scope == Scope::kRow) {
    part.size = part.columns = part.longest = part.row_size = whole.row_size;
    part.hosts = 1;
  }
  Plan chosen;
  if (part.size == 1) {
    chosen.stages.emplace_back();
  } else {
    RODA_RETURN_IF_ERROR(choose(part, &chosen));
  }
  PlanStage stage = chosen.stages.front();
  stage.scope = scope;
  stage.collective = collective;
  plan->stages.push_back(std::move(stage));
  return {};
}

Status Planner::compose(const PlanQuery& q, const std::string& name, Plan* plan) const {
  plan->composition = name;
  PlanQuery part = q;
  if (q.collective == RODA_BROADCAST) {
    part.bytes = std::min(q.bytes, execute::ExecuteOptions().level_bytes);
    RODA_RETURN_IF_ERROR(add_stage(Scope::kColumn, RODA_BROADCAST, part, plan));
    return add_stage(Scope::kRow, RODA_BROADCAST, part, plan);
  }
  if (q.collective == RODA_ALLGATHER) {
    part.bytes = q.bytes / static_cast<std::size_t>(q.columns);
    RODA_RETURN_IF_ERROR(add_stage(Scope::kColumn, RODA_ALLGATHER, part, plan));
    return add_stage(Scope::kRow, RODA_ALLGATHER, q, plan);
  }
  if (q.collective == RODA_REDUCESCATTER) {
    part.bytes = q.bytes / static_cast<std::size_t>(q.columns);
    RODA_RETURN_IF_ERROR(add_stage(Scope::kRow, RODA_REDUCESCATTER, q, plan));
    return add_stage(Scope::kColumn, RODA_REDUCESCATTER, part, plan);
  }
  if (name == kTwoStep) {
    RODA_RETURN_IF_ERROR(add_stage(Scope::kRow, RODA_ALLREDUCE, part, plan));
    return add_stage(Scope::kColumn, RODA_ALLREDUCE, part, plan);
  }
  part.bytes = std::min(q.bytes, execute::ExecuteOptions().level_bytes);
  RODA_RETURN_IF_ERROR(add_stage(Scope::kRow, RODA_REDUCESCATTER, part, plan));
  PlanQuery shard = part;
  shard.bytes = part.bytes / static_cast<std::size_t>(q.columns);
  RODA_RETURN_IF_ERROR(add_stage(Scope::kColumn, RODA_ALLREDUCE, shard, plan));
  return add_stage(Scope::kRow, RODA_ALLGATHER, part, plan);
}

// Why the composition can't run, or should not; empty when it can. The same on every rank: it looks at hosts of every
// size that there may be.
std::string Planner::obstacle(const PlanQuery& q, const std::string& composition) const {
  if (q.hosts <= 1) return "all ranks are on one host";
  if (q.longest <= 1) return "no host has more than one rank";
  const bool needs_even = composition == kTwoStep || q.collective != RODA_ALLREDUCE;
  if (needs_even && q.columns != q.longest) return "the hosts have different numbers of ranks";
  for (int row_size = std::max(q.columns, 2); row_size <= q.longest; ++row_size) {
    PlanQuery at = q;
    at.row_size = row_size;
    Plan plan;
    if (const Status s = compose(at, composition, &plan); !s.ok()) return s.message();
    for (const PlanStage& stage : plan.stages) {
      const bool is_near = stage.scope != Scope::kRow || (stage.transport->capabilities & RODA_CAP_SAME_HOST) != 0;
      const bool is_wanted = q.collective == RODA_ALLGATHER ? options_.always_hierarchical_allgather
                                                            : options_.always_hierarchical_allreduce;
      if (!is_near && !is_wanted) {
        return std::string("inside a host it would use ") + stage.transport->name + ", which serves all ranks as well";
      }
    }
  }
  return "";
}

bool Planner::fuses_without_copies(const PlanQuery& q) {
  const Plan* chosen = nullptr;
  if (!plan(q, &chosen).ok() || !chosen->composition.empty()) return false;
  const auto collective = static_cast<schedule::Collective>(q.collective);
  const schedule::Algorithm* algorithm = schedule::find_algorithm(collective, chosen->stages.front().algorithm);
  return algorithm != nullptr && execute::takes_buckets(*algorithm);
}

std::string Plan::describe() const {
  static constexpr const char* kWhere[] = {"", " on each host", " across hosts"};
  std::string text;
  for (const PlanStage& stage : stages) {
    text += (text.empty() ? "" : ", then ") + lower_name(stage.collective) + kWhere[static_cast<int>(stage.scope)] +
            " by " +
            (stage.transport == nullptr ? "nobody: this rank is alone there"
                                        : stage.transport->name + ("/" + stage.algorithm));
  }
  return text;
}

std::vector<const roda_transport*> in_order_of_preference(std::vector<const roda_transport*> usable,
                                                          const std::vector<std::string>& named) {
  std::erase_if(usable, [&](const roda_transport* t) {
    if (named.empty()) return (t->capabilities & RODA_CAP_IN_PROCESS) != 0;
    return std::find(named.begin(), named.end(), t->name) == named.end();
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
                     {"hosts", q.hosts},
                     {"same_host", q.hosts <= 1}};
    if (chosen != verdicts.end()) {
      for (const PlanStage& stage : planner.plan_of(q, chosen->option).stages) {
        j["stages"].push_back({{"scope", kScopes[static_cast<int>(stage.scope)]},
                               {"collective", roda_collective_name(stage.collective)},
                               {"transport", stage.transport == nullptr ? "" : stage.transport->name},
                               {"algorithm", stage.algorithm}});
      }
    }
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
      << q.size << (q.size == 1 ? " rank" : " ranks")
      << (q.hosts <= 1 ? " of one host" : " on " + std::to_string(q.hosts) + " hosts") << ":\n";
  if (q.size == 1) out << "  one rank: nothing travels, the input is copied to the output\n";
  for (const auto& v : verdicts) {
    out << (v.usable && &v == &*chosen ? "  > " : "    ") << v.option.transport << '/' << v.option.algorithm << "  "
        << fate(v) << '\n';
    const bool is_composed = v.option.transport == select::kLevels && v.usable;
    if (is_composed) out << "      " << planner.plan_of(q, v.option).describe() << '\n';
  }
  if (chosen == verdicts.end()) out << "  nothing can run this\n";
  return out.str();
}

}  // namespace roda::engine
