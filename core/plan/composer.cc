#include "core/plan/composer.h"

#include <algorithm>

#include "algorithms/collectives/ranks.h"
#include "algorithms/plan/compile.h"
#include "algorithms/plan/plan.h"
#include "algorithms/select/table.h"
#include "core/execute/stage.h"

namespace roda::engine {
namespace {

constexpr const char* kHierarchical = "hierarchical";
constexpr const char* kTwoStep = "two_step";
constexpr const char* kTorus = "torus";
constexpr const char* kBetweenHosts = "between_hosts";

bool is_on_device(const PlanQuery& q) { return q.memory_kind != RODA_MEMORY_HOST; }

// The composition with its stages' places, its algorithms still to be chosen. On devices a rank without neighbours gets
// stages of its own (Grid::singleton_axis).
plan::Plan outline(const PlanQuery& q, const std::string& name, const plan::Grid& grid) {
  if (name == kTwoStep) return plan::reduce_along_each_axis(name, grid, {});
  if (name == kTorus) return plan::torus(grid, {});
  std::vector<plan::Choice> choices(grid.names().size());
  const std::int32_t singleton = grid.singleton_axis();
  if (is_on_device(q) && singleton >= 0) choices[static_cast<std::size_t>(singleton)].even_alone = true;
  return plan::hierarchical(static_cast<schedule::Collective>(q.collective), grid, choices);
}

// "on each host", "across hosts", "across hosts of each rack"
std::string place_in_words(const plan::Grid& grid, std::int32_t axis, bool is_torus) {
  const auto& names = grid.names();
  const auto at = static_cast<std::size_t>(axis);
  if (is_torus) return "along " + names[at];
  if (axis == 0 || axis == grid.singleton_axis()) return "on each " + names[at];
  return "across " + names[at - 1] + "s" + (at + 1 < names.size() ? " of each " + names[at] : "");
}

// What the table goes by for one stage of a composition: about as many bytes as a group of it has of one slice.
std::size_t stage_bytes(const PlanQuery& q, const plan::Grid& grid, const plan::Plan& plan, std::size_t number) {
  std::size_t bytes = std::min(q.bytes, execute::ExecuteOptions().level_bytes);
  const auto collective = static_cast<schedule::Collective>(q.collective);
  const bool is_shared_out =
      plan.name != kTwoStep && !schedule::is(collective, RODA_ROOTED) && !schedule::is_between_pairs(collective);
  for (std::int32_t axis = 0; is_shared_out && axis < plan.stages[number].axis; ++axis) {
    bytes /= static_cast<std::size_t>(grid.smallest(axis));
  }
  return bytes;
}

}  // namespace

bool Composer::is_asked_for(int collective) const {
  return collective == RODA_ALLGATHER ? hierarchy_.always_hierarchical_allgather
                                      : hierarchy_.always_hierarchical_allreduce;
}

bool Composer::comes_first(const PlanQuery& q, const std::string& name) const {
  const bool is_singleton = q.shape != nullptr && q.shape->grid(name).singleton_axis() >= 0;
  return !is_singleton || (is_asked_for(q.collective) && (q.hosts > 1 || carriers_.on_device(q.collective).is_mixed));
}

Ranking::Obstacles Composer::obstacles(const PlanQuery& q, const Carriers::Transports& transports) const {
  Ranking::Obstacles obstacles;
  for (const char* name : {kHierarchical, kTwoStep, kTorus, kBetweenHosts}) {
    if (select::is_composition(static_cast<schedule::Collective>(q.collective), name)) {
      obstacles[name] = obstacle(q, name, transports);
    }
  }
  return obstacles;
}

Status Composer::choose_stage(const PlanQuery& whole, const plan::Grid& grid, std::size_t number,
                              const Carriers::Transports& transports, Plan* plan) const {
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
  if (is_among_all || !schedule::is(stage.collective, RODA_COMBINES)) part.op = RODA_SUM;
  const bool is_torus = plan->composition.name == kTorus;
  const bool is_outside =
      !is_torus && (part.hosts > 1 || (grid.singleton_axis() >= 0 && stage.axis > grid.singleton_axis()));
  const std::string place = place_in_words(grid, stage.axis, is_torus);
  std::string refused;
  for (const select::Verdict& v : is_on_device(part)
                                      ? ranking_.stage_on_device(part, is_outside, whole.collective)
                                      : ranking_.in_memory(part, transports, obstacles(part, transports))) {
    const schedule::Algorithm* algorithm = schedule::find_algorithm(stage.collective, v.option.algorithm);
    const bool fits = v.usable && std::ranges::all_of(sizes, [&](int size) {
                        return algorithm == nullptr || algorithm->accepts(size);
                      });
    refused += "; " + v.option.text() + ": " + (v.usable ? "does not run on every group" : v.reason);
    if (!fits) continue;
    stage.algorithm = v.option.algorithm;
    const roda_transport* transport = carriers_.named(v.option.transport);
    const bool works_there = algorithm == nullptr && works_on(*transport, part);
    plan->stages.push_back({part.collective, transport, algorithm, is_on_device(part) && !works_there});
    plan->places.push_back(place);
    return {};
  }
  return Status::unsupported(std::string("nothing can run its ") + schedule::collective_name(stage.collective) + " " +
                             place + refused);
}

Status Composer::compose(const PlanQuery& q, const std::string& name, const Carriers::Transports& transports,
                         Plan* plan) const {
  const plan::Grid& grid = q.shape->grid(name);
  plan->composition = outline(q, name, grid);
  plan->composition.name = name;
  for (std::size_t number = 0; number < plan->composition.stages.size(); ++number) {
    RODA_RETURN_IF_ERROR(choose_stage(q, grid, number, transports, plan));
  }
  return {};
}

// Why Adasum can't work between hosts alone.
std::string Composer::adasum_obstacle(const PlanQuery& q) const {
  if (q.collective != RODA_ADASUM_ALLREDUCE) return "";
  const plan::Grid& grid = q.shape->grid(kBetweenHosts);
  if (q.hosts <= 1) return "all ranks are on one host";
  if (!grid.is_even()) return "the hosts have different numbers of ranks";
  if (grid.largest(0) == 1) return "no host has more than one rank";
  if (!ranks::is_power_of_two(q.hosts) || !ranks::is_power_of_two(q.size / q.hosts)) {
    return "it needs a power of two of hosts, and of ranks on each";
  }
  if (is_on_device(q)) return carriers_.add_on_device(q) ? "" : "nothing sums on the devices' memory";
  return hierarchy_.hierarchical_adasum ? "" : "not composed in host memory";
}

// In host memory: without a knob, only where the ranks of a host have something faster than what reaches everywhere.
std::string Composer::host_obstacle(const PlanQuery& q, const Plan& plan, const plan::Grid& grid) const {
  const std::string& name = plan.composition.name;
  if (name == kTorus || name == kBetweenHosts || is_asked_for(q.collective)) return "";
  for (std::size_t number = 0; number < plan.stages.size(); ++number) {
    const roda_transport& transport = *plan.stages[number].transport;
    if (grid.hosts(plan.composition.stages[number].axis) > 1 || (transport.capabilities & RODA_CAP_SAME_HOST) != 0)
      continue;
    return std::string("inside a host it would use ") + transport.name + ", which serves all ranks as well";
  }
  return "";
}

std::string Composer::obstacle(const PlanQuery& q, const std::string& name,
                               const Carriers::Transports& transports) const {
  if (is_on_device(q) && name == kTwoStep) return "not composed on devices";
  if (q.shape == nullptr) return "all ranks are on one host";
  if (std::string missing = q.shape->missing(name); !missing.empty()) return missing;
  const plan::Grid& grid = q.shape->grid(name);
  if (grid.axes_in_use().size() < 2 && !(is_on_device(q) && grid.singleton_axis() >= 0)) {
    return is_on_device(q) || q.hosts <= 1 ? "all ranks are on one host" : "no host has more than one rank";
  }
  if (name == kTwoStep && !grid.is_even()) return "the hosts have different numbers of ranks";
  if (std::string reason = adasum_obstacle(q); !reason.empty()) return reason;
  Plan plan;
  if (const Status s = compose(q, name, transports, &plan); !s.ok()) return s.message();
  if (q.size > plan::kMostRoutedRanks && plan::has_routes(plan.composition)) {
    return "more than " + std::to_string(plan::kMostRoutedRanks) + " ranks";
  }
  if (!is_on_device(q)) return host_obstacle(q, plan, grid);
  const bool any_works = std::ranges::any_of(plan.stages, [](const auto& s) { return !s.staged; });
  return any_works ? "" : "nothing of it works on the devices' memory";
}

}  // namespace roda::engine
