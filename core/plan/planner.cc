#include "core/plan/planner.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "algorithms/schedule/format.h"
#include "algorithms/schedule/program.h"
#include "algorithms/schedule/schedule.h"

namespace roda::engine {

// A stage goes by a share of the bytes: it passes an edge where they pass the edge times the shares.
const std::vector<std::size_t>& PlanCache::edges_of(const PlanQuery& q) {
  const auto [found, is_new] = edges_.try_emplace(q.shape_hash);
  std::vector<std::size_t>& edges = found->second;
  if (!is_new) return edges;
  std::set<std::size_t> shares{1};
  for (const char* composition : {"hierarchical", "torus"}) {
    std::size_t product = 1;
    if (q.shape == nullptr) break;
    const plan::Grid& grid = q.shape->grid(composition);
    for (std::int32_t axis = 0; axis <= grid.last_axis(); ++axis) {
      shares.insert(product *= static_cast<std::size_t>(grid.smallest(axis)));
    }
  }
  for (const std::size_t edge : table_edges_) {
    for (const std::size_t share : shares) {
      if (edge <= SIZE_MAX / share) edges.push_back(edge * share);
    }
  }
  std::ranges::sort(edges);
  return edges;
}

// The smallest size for which the plan is sure to be the query's.
PlanQuery PlanCache::key_of(const PlanQuery& q) {
  const std::vector<std::size_t>& edges = edges_of(q);
  const auto above = std::ranges::upper_bound(edges, q.bytes);
  PlanQuery key = q;
  key.bytes = above == edges.begin() ? 0 : *std::prev(above);
  key.shape = nullptr;  // may be gone before the plan
  return key;
}

const Plan* PlanCache::find(const PlanQuery& q) {
  const auto found = known_.find(key_of(q));
  return found == known_.end() ? nullptr : found->second;
}

const Plan* PlanCache::keep(const PlanQuery& q, Plan plan) {
  const auto is_equal = [&plan](const auto& known) {
    return known->stages == plan.stages && known->composition == plan.composition && known->places == plan.places &&
           known->staged == plan.staged;
  };
  auto found = std::ranges::find_if(plans_, is_equal);
  if (found == plans_.end()) {
    plan.id = static_cast<std::uint32_t>(plans_.size() + 1);
    plan.text = plan.describe();
    found = plans_.insert(plans_.end(), std::make_unique<const Plan>(std::move(plan)));
  }
  if (known_.size() >= kMostKeys) known_.clear();  // process sets of other shapes come and go
  return known_[key_of(q)] = found->get();
}

Planner::Planner(select::Table table, Carriers::Transports transports, Policy policy)
    : tables_{std::move(table)},
      carriers_(std::move(transports), std::move(policy.on_device)),
      terms_(std::move(policy.terms)),
      ranking_(tables_, carriers_, terms_),
      composer_(ranking_, carriers_, policy.compositions),
      assumptions_(std::move(policy.assumptions)),
      cache_(tables_.front().edges()) {}

std::uint32_t Planner::add_rules(const std::string& text) {
  std::string error;
  const auto rules = select::Table::parse(text, &error);
  if (!rules.has_value() || rules->rules().empty()) return 0;
  const auto known = std::ranges::find(texts_, text);
  const auto number = static_cast<std::uint32_t>(known - texts_.begin()) + 1;
  if (known != texts_.end()) return number;
  texts_.push_back(text);
  tables_.push_back(tables_.front().overridden_by(*rules));
  return number;
}

std::uint32_t Planner::rules_with(std::uint32_t rules, std::int32_t wire_format) {
  if (wire_format == RODA_WIRE_NONE) return rules;
  const auto [known, is_new] = with_formats_.try_emplace({rules, wire_format});
  if (!is_new) return known->second;
  const std::string bans = tables_[rules].bans();
  const std::string others = rules == 0 ? "" : "; " + texts_[rules - 1];
  const std::string asked = select::rules_in_format(roda_wire_formats[wire_format].name);
  return known->second = add_rules(bans + (bans.empty() ? "" : "; ") + asked + others);
}

Status Planner::plan(const PlanQuery& q, const Plan** plan) {
  *plan = cache_.find(q);
  if (*plan != nullptr) return {};
  Plan made;
  RODA_RETURN_IF_ERROR(choose(q, &made));
  *plan = cache_.keep(q, std::move(made));
  return {};
}

Ranking::Verdicts Planner::candidates(const PlanQuery& q) const {
  if (q.memory_kind != RODA_MEMORY_HOST) return device_candidates(q);
  const Carriers::Transports& transports = carriers_.for_host();
  return ranking_.in_memory(q, transports, composer_.obstacles(q, transports));
}

Ranking::Verdicts Planner::device_candidates(const PlanQuery& q) const {
  const Ranking::Obstacles obstacles = composer_.obstacles(q, carriers_.for_host());
  Ranking::Verdicts verdicts = ranking_.on_device(q, obstacles);
  if (carriers_.on_device(q.collective).composes) {
    std::stable_partition(verdicts.begin(), verdicts.end(), [&](const select::Verdict& v) {
      return v.option.transport == select::kLevels && composer_.comes_first(q, v.option.algorithm);
    });
  }
  for (select::Verdict& v : ranking_.staged(q, composer_.obstacles(in_host_memory(q), carriers_.staging(q)))) {
    const bool is_known = std::ranges::any_of(
        verdicts, [&](const select::Verdict& known) { return known.usable && known.option == v.option; });
    if (!is_known) verdicts.push_back(std::move(v));
  }
  return verdicts;
}

Plan Planner::plan_of(const PlanQuery& q, const select::Option& option) const {
  const bool is_on_device = q.memory_kind != RODA_MEMORY_HOST;
  Plan plan;
  if (option.transport != select::kLevels) {
    const roda_transport* transport = carriers_.named(option.transport);
    const auto collective = static_cast<schedule::Collective>(q.collective);
    const schedule::Algorithm* algorithm = schedule::find_algorithm(collective, option.algorithm);
    plan.stages = {{q.collective, transport, algorithm}};
    plan.places = {""};
    plan.staged = is_on_device && (algorithm != nullptr || !works_on(*transport, q));
    return plan;
  }
  const Carriers::Transports& transports = carriers_.for_host();
  if (!is_on_device || composer_.obstacles(q, transports)[option.algorithm].empty()) {
    static_cast<void>(composer_.compose(q, option.algorithm, transports, &plan));
    return plan;
  }
  static_cast<void>(composer_.compose(in_host_memory(q), option.algorithm, carriers_.staging(q), &plan));
  plan.staged = true;
  return plan;
}

Status Planner::choose(const PlanQuery& q, Plan* plan) const {
  std::string refused;
  for (const select::Verdict& v : candidates(q)) {
    if (v.usable) {
      *plan = plan_of(q, v.option);
      const Formats formats = formats_of(*plan, q);
      if (formats.bound <= terms_.most_error) return {};
      return {RODA_ERR_PRECONDITION,
              plan->describe() + ": " + schedule::beyond_bound(terms_.most_error, formats.worst, formats.roundings)};
    }
    refused += "; " + v.option.text() + ": " + v.reason;
  }
  return Status::unsupported("No " + std::string(roda_collective_of(q.collective)->title) +
                             " operation enabled: no transport can run it on " + std::to_string(q.bytes) +
                             " bytes of " + roda_dtype_name(q.dtype) + " over " + std::to_string(q.size) + " ranks" +
                             (refused.empty() ? "; no rule of the selection table applies" : refused) +
                             ". `roda-info --plugins` lists the transports and why each is or isn't usable.");
}

bool Planner::fuses_without_copies(const PlanQuery& q) {
  const Plan* chosen = nullptr;
  if (!plan(q, &chosen).ok() || chosen->is_composed()) return false;
  const schedule::Algorithm* algorithm = chosen->stages.front().algorithm;
  return algorithm != nullptr && schedule::takes_buckets(*algorithm);
}

bool Planner::averages(const PlanQuery& q) {
  const Plan* chosen = nullptr;
  if (q.memory_kind == RODA_MEMORY_HOST || !plan(q, &chosen).ok()) return false;
  return !chosen->is_composed() && !chosen->staged;
}

}  // namespace roda::engine
