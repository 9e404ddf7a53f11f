#include "core/plan/planner.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>
#include <utility>

#include "algorithms/plan/compile.h"
#include "algorithms/plan/compose.h"
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

// The composition with its stages' places, its algorithms still to be chosen. On devices a rank without neighbours gets
// stages of its own (GridFacts::lonely_axis).
plan::Plan outline(const PlanQuery& q, const std::string& name, const GridFacts& facts) {
  if (name == kTwoStep) return plan::reduce_along_each_axis(name, facts.grid, {});
  if (name == kTorus) return plan::torus(facts.grid, {});
  std::vector<plan::Choice> choices(facts.grid.axes.size());
  const bool has_lonely_stages = q.memory_kind != RODA_MEMORY_HOST && facts.lonely_axis >= 0;
  if (has_lonely_stages) choices[static_cast<std::size_t>(facts.lonely_axis)].even_alone = true;
  return plan::hierarchical(static_cast<schedule::Collective>(q.collective), facts.grid, choices);
}

// "on each host", "across hosts", "across hosts of each rack"
std::string place_in_words(const GridFacts& facts, std::int32_t axis, bool is_torus) {
  const auto& names = facts.grid.axes;
  const auto at = static_cast<std::size_t>(axis);
  if (is_torus) return "along " + names[at];
  if (axis == 0 || axis == facts.lonely_axis) return "on each " + names[at];
  return "across " + names[at - 1] + "s" + (at + 1 < names.size() ? " of each " + names[at] : "");
}

// What the table goes by for one stage of a composition: about as many bytes as a group of it has of one piece.
std::size_t stage_bytes(const PlanQuery& q, const GridFacts& facts, const plan::Plan& plan, std::size_t number) {
  std::size_t bytes = std::min(q.bytes, execute::ExecuteOptions().level_bytes);
  const bool is_shared_out = plan.name != kTwoStep && q.collective != RODA_BROADCAST && q.collective != RODA_ALLTOALL;
  for (std::int32_t axis = 0; is_shared_out && axis < plan.stages[number].axis; ++axis) {
    bytes /= static_cast<std::size_t>(facts.axes[static_cast<std::size_t>(axis)].smallest);
  }
  return bytes;
}

// What may keep a stage from being staged is found where it runs.
std::string unless(const PlanStage& stage) {
  const auto* algorithm =
      schedule::find_algorithm(static_cast<schedule::Collective>(stage.collective), stage.algorithm);
  const bool has_messages_alone = algorithm != nullptr && !execute::one_sided(algorithm->needs);
  if (!has_messages_alone || stage.transport->memory_kinds == nullptr) return "";
  return std::string(" where ") + stage.transport->name + " does not take the devices'";
}

}  // namespace

Planner::Planner(select::Table table, std::vector<const roda_transport*> transports, Options options)
    : table_(std::move(table)), transports_(std::move(transports)), options_(std::move(options)) {}

std::vector<select::Verdict> Planner::candidates(const PlanQuery& q) const {
  if (q.memory_kind != RODA_MEMORY_HOST) return device_candidates(q);
  return q.collective == RODA_ADASUM_ALLREDUCE ? adasum_candidates(q, options_.hierarchical_adasum)
                                               : host_candidates(q, transports_);
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
  for (const char* name : {kHierarchical, kTwoStep, kTorus}) {
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
  PlanQuery key = q;
  key.bytes = least_bytes_like(q);
  if (const auto it = known_.find(key); it != known_.end()) {
    *plan = it->second;
    return {};
  }
  Plan made;
  RODA_RETURN_IF_ERROR(choose(q, &made));
  if (known_.size() >= kMostKeys) known_.clear();  // process sets of other shapes come and go
  key.shape = nullptr;
  *plan = known_[key] = intern(std::move(made));
  return {};
}

// A stage goes by a share of the bytes: it passes an edge where they pass the edge times the shares (stage_bytes).
std::size_t Planner::least_bytes_like(const PlanQuery& q) {
  const auto [found, is_new] = edges_.try_emplace(q.shape_hash);
  std::vector<std::size_t>& edges = found->second;
  if (is_new) {
    std::set<std::size_t> shares{1};
    for (const char* composition : {kHierarchical, kTorus}) {
      std::size_t product = 1;
      if (q.shape == nullptr) break;
      for (const GridFacts::Axis& axis : q.shape->grid(composition).axes) {
        shares.insert(product *= static_cast<std::size_t>(axis.smallest));
      }
    }
    for (const std::size_t edge : table_.edges()) {
      for (const std::size_t share : shares) {
        if (edge <= SIZE_MAX / share) edges.push_back(edge * share);
      }
    }
    std::sort(edges.begin(), edges.end());
  }
  const auto above = std::upper_bound(edges.begin(), edges.end(), q.bytes);
  return above == edges.begin() ? 0 : *std::prev(above);
}

const Plan* Planner::intern(Plan plan) {
  const auto is_equal = [&plan](const auto& known) {
    return known->stages == plan.stages && known->composition == plan.composition && known->places == plan.places &&
           known->staged == plan.staged;
  };
  const auto found = std::find_if(plans_.begin(), plans_.end(), is_equal);
  if (found != plans_.end()) return found->get();
  plan.id = static_cast<std::uint32_t>(plans_.size() + 1);
  plan.text = plan.describe();
  return plans_.emplace_back(std::make_unique<const Plan>(std::move(plan))).get();
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
Status Planner::choose_stage(const PlanQuery& whole, const GridFacts& facts, std::size_t number,
                             const Transports& transports, Plan* plan) const {
  plan::Stage& stage = plan->composition.stages[number];
  const GridFacts::Axis& axis = facts.axes[static_cast<std::size_t>(stage.axis)];
  PlanQuery part = whole;
  part.shape = nullptr;
  part.shape_hash = 0;
  part.collective = static_cast<int>(stage.collective);
  part.bytes = stage_bytes(whole, facts, plan->composition, number);
  part.hosts = axis.hosts;
  part.size = axis.largest;
  const bool moves_only =
      stage.collective != schedule::Collective::kAllreduce && stage.collective != schedule::Collective::kReduceScatter;
  if (moves_only) part.op = RODA_SUM;
  std::string refused;
  const bool is_on_device = part.memory_kind != RODA_MEMORY_HOST;
  const bool is_outside = plan->composition.name != kTorus &&
                          (axis.hosts > 1 || (facts.lonely_axis >= 0 && stage.axis > facts.lonely_axis));
  for (const select::Verdict& v :
       is_on_device ? stage_candidates(part, is_outside, *plan) : host_candidates(part, transports)) {
    const schedule::Algorithm* algorithm = schedule::find_algorithm(stage.collective, v.option.algorithm);
    const bool fits = v.usable && std::all_of(axis.sizes.begin(), axis.sizes.end(), [&](int size) {
                        return algorithm == nullptr || algorithm->accepts(size);
                      });
    refused += "; " + v.option.transport + "/" + v.option.algorithm + ": " +
               (v.usable ? "does not run on every group" : v.reason);
    if (!fits) continue;
    stage.algorithm = v.option.algorithm;
    const Plan chosen = plan_of(part, v.option);
    plan->stages.push_back(
        {part.collective, chosen.stages.front().transport, v.option.algorithm, is_on_device && chosen.staged});
    plan->places.push_back(place_in_words(facts, stage.axis, plan->composition.name == kTorus));
    return {};
  }
  return Status::unsupported(std::string("nothing can run its ") + schedule::collective_name(stage.collective) + " " +
                             place_in_words(facts, stage.axis, plan->composition.name == kTorus) + refused);
}

Status Planner::compose(const PlanQuery& q, const std::string& name, const Transports& transports, Plan* plan) const {
  const GridFacts& facts = q.shape->grid(name);
  plan->composition = outline(q, name, facts);
  plan->composition.name = name;
  for (std::size_t number = 0; number < plan->composition.stages.size(); ++number) {
    RODA_RETURN_IF_ERROR(choose_stage(q, facts, number, transports, plan));
  }
  return {};
}

std::string Planner::routes_obstacle(const PlanQuery& q, const Plan& plan) {
  const bool fits = q.size <= plan::kMostRoutedRanks || !plan::has_routes(plan.composition);
  return fits ? "" : "more than " + std::to_string(plan::kMostRoutedRanks) + " ranks";
}

// Why the composition can't run, or should not; empty when it can. The same on every rank.
std::string Planner::obstacle(const PlanQuery& q, const std::string& composition, const Transports& transports) const {
  if (q.shape == nullptr) return "all ranks are on one host";
  const GridFacts& facts = q.shape->grid(composition);
  if (!facts.missing.empty()) return facts.missing;
  if (facts.axes_in_use < 2) return q.hosts <= 1 ? "all ranks are on one host" : "no host has more than one rank";
  if (composition == kTwoStep && !facts.is_even) return "the hosts have different numbers of ranks";
  Plan plan;
  if (const Status s = compose(q, composition, transports, &plan); !s.ok()) return s.message();
  if (std::string reason = routes_obstacle(q, plan); !reason.empty()) return reason;
  const bool is_wanted = composition == kTorus || is_asked_for(q.collective);
  for (std::size_t number = 0; !is_wanted && number < plan.stages.size(); ++number) {
    const auto axis = static_cast<std::size_t>(plan.composition.stages[number].axis);
    const roda_transport& transport = *plan.stages[number].transport;
    if (facts.axes[axis].hosts > 1 || (transport.capabilities & RODA_CAP_SAME_HOST) != 0) continue;
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

schedule::Schedule schedule_of(const Plan& plan, const Shape& shape, int rank, int root) {
  if (plan.is_composed()) {
    const plan::Grid& grid = shape.grid(plan.composition.name).grid;
    return plan::Compiler(plan.composition, grid, root, rank).schedule(rank);
  }
  const PlanStage& only = plan.stages.front();
  const auto collective = static_cast<schedule::Collective>(only.collective);
  const plan::Plan single{only.algorithm, collective, {{collective, only.algorithm, 0}}};
  return plan::Compiler(single, plan::flat_grid(shape.size()), root).schedule(rank);
}

std::string Plan::describe() const {
  std::string text;
  for (std::size_t number = 0; number < stages.size(); ++number) {
    const PlanStage& stage = stages[number];
    text += (text.empty() ? "" : ", then ") + lower_name(stage.collective) +
            (places[number].empty() ? "" : " " + places[number]) + " by " + stage.transport->name + "/" +
            stage.algorithm + (stage.staged ? " (staged through host memory" + unless(stage) + ")" : "");
  }
  if (!staged) return text;
  const bool may_be_direct =
      std::all_of(stages.begin(), stages.end(), [](const auto& s) { return !unless(s).empty(); });
  return text + ", staged through host memory" + (may_be_direct ? unless(stages.front()) : "");
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
