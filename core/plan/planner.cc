#include "core/plan/planner.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "algorithms/plan/compile.h"
#include "algorithms/plan/compose.h"
#include "algorithms/ranks/fold.h"
#include "algorithms/schedule/schedule.h"
#include "algorithms/select/names.h"
#include "core/execute/group.h"
#include "core/execute/options.h"
#include "core/execute/schedule/program.h"
#include "core/plan/words.h"
#include "plugins/base/format.h"

namespace roda::engine {
namespace {

constexpr const char* kHierarchical = "hierarchical";
constexpr const char* kTwoStep = "two_step";
constexpr const char* kTorus = "torus";
constexpr const char* kBetweenHosts = "between_hosts";

// The composition with its stages' places, its algorithms still to be chosen. On devices a rank without neighbours gets
// stages of its own (Grid::lonely_axis).
plan::Plan outline(const PlanQuery& q, const std::string& name, const plan::Grid& grid) {
  if (name == kTwoStep) return plan::reduce_along_each_axis(name, grid, {});
  if (name == kTorus) return plan::torus(grid, {});
  std::vector<plan::Choice> choices(grid.names().size());
  const std::int32_t lonely = grid.lonely_axis();
  if (q.memory_kind != RODA_MEMORY_HOST && lonely >= 0) choices[static_cast<std::size_t>(lonely)].even_alone = true;
  return plan::hierarchical(static_cast<schedule::Collective>(q.collective), grid, choices);
}

// "on each host", "across hosts", "across hosts of each rack"
std::string place_in_words(const plan::Grid& grid, std::int32_t axis, bool is_torus) {
  const auto& names = grid.names();
  const auto at = static_cast<std::size_t>(axis);
  if (is_torus) return "along " + names[at];
  if (axis == 0 || axis == grid.lonely_axis()) return "on each " + names[at];
  return "across " + names[at - 1] + "s" + (at + 1 < names.size() ? " of each " + names[at] : "");
}

// What the table goes by for one stage of a composition: about as many bytes as a group of it has of one piece.
std::size_t stage_bytes(const PlanQuery& q, const plan::Grid& grid, const plan::Plan& plan, std::size_t number) {
  std::size_t bytes = std::min(q.bytes, execute::ExecuteOptions().level_bytes);
  const bool is_shared_out = plan.name != kTwoStep && q.collective != RODA_BROADCAST && q.collective != RODA_ALLTOALL;
  for (std::int32_t axis = 0; is_shared_out && axis < plan.stages[number].axis; ++axis) {
    bytes /= static_cast<std::size_t>(grid.smallest(axis));
  }
  return bytes;
}

}  // namespace

Planner::Planner(select::Table table, std::vector<const roda_transport*> transports, Options options)
    : table_(std::move(table)),
      transports_(std::move(transports)),
      options_(std::move(options)),
      cache_(table_.edges()) {}

std::vector<select::Verdict> Planner::candidates(const PlanQuery& q) const {
  if (q.memory_kind != RODA_MEMORY_HOST) return device_candidates(q);
  return host_candidates(q, transports_);
}

std::vector<select::Verdict> Planner::host_candidates(const PlanQuery& q, const Transports& transports) const {
  std::vector<select::Offer> offers;
  for (const roda_transport* t : transports) {
    if ((t->capabilities & RODA_CAP_SAME_HOST) != 0 && q.hosts > 1) continue;
    select::Offer offer;
    offer.transport = t->name;
    offer.needs_met = execute::needs_met(t->capabilities);
    offer.maps = (t->capabilities & RODA_CAP_MAP) != 0;
    offer.active_windows = (t->capabilities & RODA_CAP_ACTIVE_WINDOWS) != 0;
    offer.native = (t->capabilities & RODA_CAP_NATIVE) != 0 && t->collective_supported != nullptr &&
                   t->collective_supported(nullptr, q.collective, q.dtype, q.op, q.memory_kind) == 1;
    offers.push_back(std::move(offer));
  }
  select::Offer levels;
  levels.transport = select::kLevels;
  for (const char* name : {kHierarchical, kTwoStep, kTorus, kBetweenHosts}) {
    if (select::is_composition(static_cast<schedule::Collective>(q.collective), name)) {
      levels.compositions[name] = obstacle(q, name, transports);
    }
  }
  offers.push_back(std::move(levels));
  return table_.rank(table_query(q), offers);
}

select::Query Planner::table_query(const PlanQuery& q) const {
  select::Query query;
  query.collective = static_cast<schedule::Collective>(q.collective);
  query.memory = q.memory_kind == RODA_MEMORY_CUDA ? select::Memory::kCuda : select::Memory::kHost;
  query.bytes = q.bytes;
  query.size = q.size;
  // Whole numbers come to the same bits in any order.
  const bool rounds = q.dtype >= RODA_FLOAT16 && q.dtype != RODA_BOOL;
  query.in_rank_order = options_.deterministic && rounds;
  return query;
}

Status Planner::plan(const PlanQuery& q, const Plan** plan) {
  *plan = cache_.find(q);
  if (*plan != nullptr) return {};
  Plan made;
  RODA_RETURN_IF_ERROR(choose(q, &made));
  *plan = cache_.keep(q, std::move(made));
  return {};
}

bool Planner::is_asked_for(int collective) const {
  return collective == RODA_ALLGATHER ? options_.always_hierarchical_allgather : options_.always_hierarchical_allreduce;
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
  std::string title = lower_name(q.collective);
  title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
  return Status::unsupported("No " + title + " operation enabled: no transport can run it on " +
                             std::to_string(q.bytes) + " bytes of " + roda_dtype_name(q.dtype) + " over " +
                             std::to_string(q.size) + " ranks" +
                             (refused.empty() ? "; no rule of the selection table applies" : refused) +
                             ". `roda-info` lists the transports and why each is or isn't usable.");
}

Plan Planner::plan_of(const PlanQuery& q, const select::Option& option) const {
  return q.memory_kind == RODA_MEMORY_HOST ? host_plan_of(q, option, transports_) : device_plan_of(q, option);
}

Plan Planner::host_plan_of(const PlanQuery& q, const select::Option& option, const Transports& transports) const {
  Plan plan;
  if (option.transport == select::kLevels) {
    static_cast<void>(compose(q, option.algorithm, transports, &plan));
    return plan;
  }
  plan.stages = {{q.collective, transport_named(option.transport), option.algorithm}};
  plan.places = {""};
  return plan;
}

// The first option of the table that can run in groups of every size that the stage's axis has: one for all groups, so
// that the plan is one value.
Status Planner::choose_stage(const PlanQuery& whole, const plan::Grid& grid, std::size_t number,
                             const Transports& transports, Plan* plan) const {
  plan::Stage& stage = plan->composition.stages[number];
  const bool is_among_all = stage.collective == schedule::Collective::kAdasum;
  const auto sizes = is_among_all ? std::vector<std::int32_t>{whole.size} : grid.sizes(stage.axis);
  PlanQuery part = whole;
  part.shape = nullptr;
  part.shape_hash = 0;
  part.collective = static_cast<int>(stage.collective);
  part.bytes = stage_bytes(whole, grid, plan->composition, number);
  part.hosts = grid.hosts(stage.axis);
  part.size = is_among_all ? whole.size : grid.largest(stage.axis);
  const bool moves_only =
      stage.collective != schedule::Collective::kAllreduce && stage.collective != schedule::Collective::kReduceScatter;
  if (moves_only) part.op = RODA_SUM;
  std::string refused;
  const bool is_on_device = part.memory_kind != RODA_MEMORY_HOST;
  const bool is_outside = plan->composition.name != kTorus &&
                          (part.hosts > 1 || (grid.lonely_axis() >= 0 && stage.axis > grid.lonely_axis()));
  for (const select::Verdict& v :
       is_on_device ? stage_candidates(part, is_outside, *plan) : host_candidates(part, transports)) {
    const schedule::Algorithm* algorithm = schedule::find_algorithm(stage.collective, v.option.algorithm);
    const bool fits = v.usable && std::all_of(sizes.begin(), sizes.end(), [&](int size) {
                        return algorithm == nullptr || algorithm->accepts(size);
                      });
    refused += "; " + v.option.transport + "/" + v.option.algorithm + ": " +
               (v.usable ? "does not run on every group" : v.reason);
    if (!fits) continue;
    stage.algorithm = v.option.algorithm;
    const Plan chosen = plan_of(part, v.option);
    plan->stages.push_back(
        {part.collective, chosen.stages.front().transport, v.option.algorithm, is_on_device && chosen.staged});
    plan->places.push_back(place_in_words(grid, stage.axis, plan->composition.name == kTorus));
    return {};
  }
  return Status::unsupported(std::string("nothing can run its ") + schedule::collective_name(stage.collective) + " " +
                             place_in_words(grid, stage.axis, plan->composition.name == kTorus) + refused);
}

Status Planner::compose(const PlanQuery& q, const std::string& name, const Transports& transports, Plan* plan) const {
  const plan::Grid& grid = q.shape->grid(name);
  plan->composition = outline(q, name, grid);
  plan->composition.name = name;
  for (std::size_t number = 0; number < plan->composition.stages.size(); ++number) {
    RODA_RETURN_IF_ERROR(choose_stage(q, grid, number, transports, plan));
  }
  return {};
}

std::string Planner::routes_obstacle(const PlanQuery& q, const Plan& plan) {
  const bool fits = q.size <= plan::kMostRoutedRanks || !plan::has_routes(plan.composition);
  return fits ? "" : "more than " + std::to_string(plan::kMostRoutedRanks) + " ranks";
}

// Why Adasum can't work between hosts alone.
std::string Planner::adasum_obstacle(const PlanQuery& q) const {
  if (q.collective != RODA_ADASUM_ALLREDUCE) return "";
  const plan::Grid& grid = q.shape->grid(kBetweenHosts);
  if (q.hosts <= 1) return "all ranks are on one host";
  if (!grid.is_even()) return "the hosts have different numbers of ranks";
  if (grid.largest(0) == 1) return "no host has more than one rank";
  if (!ranks::is_power_of_two(q.hosts) || !ranks::is_power_of_two(q.size / q.hosts)) {
    return "it needs a power of two of hosts, and of ranks on each";
  }
  if (q.memory_kind != RODA_MEMORY_HOST) return adds_on_device(q) ? "" : "nothing sums on the devices' memory";
  return options_.hierarchical_adasum ? "" : "not composed in host memory";
}

// Why the composition can't run, or should not; empty when it can. The same on every rank.
std::string Planner::obstacle(const PlanQuery& q, const std::string& composition, const Transports& transports) const {
  if (q.shape == nullptr) return "all ranks are on one host";
  if (std::string missing = q.shape->missing(composition); !missing.empty()) return missing;
  const plan::Grid& grid = q.shape->grid(composition);
  if (grid.axes_in_use().size() < 2)
    return q.hosts <= 1 ? "all ranks are on one host" : "no host has more than one rank";
  if (composition == kTwoStep && !grid.is_even()) return "the hosts have different numbers of ranks";
  if (std::string reason = adasum_obstacle(q); !reason.empty()) return reason;
  Plan plan;
  if (const Status s = compose(q, composition, transports, &plan); !s.ok()) return s.message();
  if (std::string reason = routes_obstacle(q, plan); !reason.empty()) return reason;
  const bool is_wanted = composition == kTorus || composition == kBetweenHosts || is_asked_for(q.collective);
  for (std::size_t number = 0; !is_wanted && number < plan.stages.size(); ++number) {
    const roda_transport& transport = *plan.stages[number].transport;
    if (grid.hosts(plan.composition.stages[number].axis) > 1 || (transport.capabilities & RODA_CAP_SAME_HOST) != 0)
      continue;
    return std::string("inside a host it would use ") + transport.name + ", which serves all ranks as well";
  }
  return "";
}

bool Planner::fuses_without_copies(const PlanQuery& q) {
  const Plan* chosen = nullptr;
  if (!plan(q, &chosen).ok() || chosen->is_composed()) return false;
  const auto collective = static_cast<schedule::Collective>(q.collective);
  const schedule::Algorithm* algorithm = schedule::find_algorithm(collective, chosen->stages.front().algorithm);
  return algorithm != nullptr && execute::takes_buckets(*algorithm);
}

bool Planner::averages(const PlanQuery& q) {
  const Plan* chosen = nullptr;
  if (q.memory_kind == RODA_MEMORY_HOST || !plan(q, &chosen).ok()) return false;
  return !chosen->is_composed() && !chosen->staged;
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

}  // namespace roda::engine
