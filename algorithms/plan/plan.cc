#include "algorithms/plan/plan.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <span>

#include "algorithms/index.h"

namespace roda::plan {

using schedule::Collective;

namespace {

std::string place_of(std::size_t stage) { return "stage " + std::to_string(stage) + ": "; }

std::string no_such_stage(const Plan& plan, std::size_t s) {
  const std::string name = schedule::collective_name(plan.collective);
  return place_of(s) + (name[0] == 'a' ? "an " : "a ") + name +
         " has no such stage: " + schedule::collective_name(plan.stages[s].collective);
}

std::optional<std::string> wrong_grid(const Grid& grid) {
  if (grid.ranks() == 0) return "the grid has no ranks";
  std::map<Grid::Place, std::int32_t> seen;
  for (std::int32_t rank = 0; rank < grid.ranks(); ++rank) {
    const auto [other, added] = seen.emplace(grid.places()[at(rank)], rank);
    if (!added) return "ranks " + std::to_string(other->second) + " and " + std::to_string(rank) + " have one place";
  }
  return std::nullopt;
}

std::optional<std::string> wrong_reduction(const Plan& plan, const Grid& grid) {
  std::vector<std::int32_t> open;
  int adasums = 0;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    if (stage.collective == Collective::kReduceScatter) {
      if (std::count(open.begin(), open.end(), stage.axis) > 0) return place_of(s) + "the axis is scattered already";
      open.push_back(stage.axis);
    } else if (stage.collective == Collective::kAllgather) {
      if (open.empty() || open.back() != stage.axis) return place_of(s) + "gathers what was not scattered last";
      open.pop_back();
    } else if (stage.collective == Collective::kAdasum && plan.collective == Collective::kAdasum) {
      ++adasums;
    } else if (stage.collective != plan.collective) {
      return no_such_stage(plan, s);
    }
  }
  if (plan.collective == Collective::kAdasum && adasums != 1) {
    return "it has " + std::to_string(adasums) + " Adasums, not one";
  }
  if (!open.empty()) return "axis " + grid.names()[at(open.back())] + " is scattered and never gathered";
  return std::nullopt;
}

// A broadcast, or a reduce.
std::optional<std::string> wrong_way(const Plan& plan) {
  const bool is_inwards = !schedule::is_for_root(plan.collective);
  const std::string name = schedule::collective_name(plan.collective);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    if (stage.collective != plan.collective) {
      return no_such_stage(plan, s);
    }
    if (s == 0) continue;
    const std::int32_t before = plan.stages[s - 1].axis;
    if (is_inwards && stage.axis >= before) return place_of(s) + "a " + name + " goes inwards";
    if (!is_inwards && stage.axis <= before) return place_of(s) + "a " + name + " goes outwards";
  }
  return std::nullopt;
}

// Blocks can be handed over along any axis; besides that, they are gathered or reduced.
std::optional<std::string> wrong_routes(const Plan& plan) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Collective collective = plan.stages[s].collective;
    if (collective == Collective::kAlltoall || collective == plan.collective) continue;
    return no_such_stage(plan, s);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> wrong_with(const Plan& plan, const Grid& grid) {
  if (auto wrong = wrong_grid(grid)) return wrong;
  if (plan.stages.size() > kMostStages) return "a plan has at most " + std::to_string(kMostStages) + " stages";
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const std::int32_t axis = plan.stages[s].axis;
    if (axis < 0 || axis > grid.last_axis()) return place_of(s) + "there is no such axis";
  }
  if (plan.collective == Collective::kBarrier) return "a barrier is not composed of stages";
  if (schedule::is_allreduction(plan.collective)) return wrong_reduction(plan, grid);
  return schedule::is_cut(plan.collective) ? wrong_way(plan) : wrong_routes(plan);
}

std::string to_text(const Plan& plan, const Grid& grid) {
  std::string text = plan.name + ":";
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    text += std::string(s == 0 ? " " : "; ") + schedule::collective_name(stage.collective) + "(" +
            grid.names()[at(stage.axis)] + ", " + stage.algorithm + ")";
  }
  return text;
}

namespace {

// The last choice serves the axes beyond.
Choice choice_of(const std::vector<Choice>& choices, std::int32_t axis) {
  return choices.empty() ? Choice{} : choices[std::min(static_cast<std::size_t>(axis), choices.size() - 1)];
}

// Axes along which some group has several ranks, or which are wanted all the same, innermost first.
std::vector<std::int32_t> axes_in_use(const Grid& grid, const std::vector<Choice>& choices) {
  std::vector<std::int32_t> axes;
  for (std::int32_t axis = 0; axis <= grid.last_axis(); ++axis) {
    if (!grid.is_lonely(axis) || choice_of(choices, axis).even_alone) axes.push_back(axis);
  }
  return axes;
}

// Stages of one collective along the axes, by the algorithms that were chosen for each.
void add_stages(Collective collective, const auto& axes, const std::vector<Choice>& choices, Plan* plan) {
  for (const std::int32_t axis : axes) {
    plan->stages.push_back({collective, choice_of(choices, axis).algorithm(collective), axis});
  }
}

}  // namespace

const std::string& Choice::algorithm(Collective collective) const {
  switch (collective) {
    case Collective::kReduceScatter:
      return reduce_scatter;
    case Collective::kAllgather:
      return allgather;
    case Collective::kBroadcast:
      return broadcast;
    case Collective::kAlltoall:
      return alltoall;
    case Collective::kAdasum:
      return adasum;
    case Collective::kReduce:
      return reduce;
    default:
      return allreduce;
  }
}

Plan reduce_along_each_axis(const std::string& name, const Grid& grid, const std::vector<Choice>& choices) {
  Plan plan{name, Collective::kAllreduce, {}};
  add_stages(plan.collective, axes_in_use(grid, choices), choices, &plan);
  return plan;
}

// Along uneven axes blocks are handed over besides: the members that a smaller group lacks don't go on to other axes.
Plan hierarchical(Collective collective, const Grid& grid, const std::vector<Choice>& choices) {
  if (schedule::is_allreduction(collective)) return scatter_reduce_gather("hierarchical", grid, choices, collective);
  Plan plan{"hierarchical", collective, {}};
  const std::vector<std::int32_t> axes = axes_in_use(grid, choices);
  std::vector<std::int32_t> uneven;
  Shares shares(grid);
  for (const std::int32_t axis : axes) {
    if (axis == axes.back() || shares.is_even(axis)) continue;
    shares.open(axis);
    uneven.push_back(axis);
  }
  if (collective == Collective::kAllgather) add_stages(Collective::kAlltoall, uneven, choices, &plan);
  if (collective == Collective::kAllgather || collective == Collective::kBroadcast) {
    add_stages(collective, std::views::reverse(axes), choices, &plan);
    return plan;
  }
  add_stages(collective, axes, choices, &plan);
  if (!schedule::is_cut(collective)) add_stages(Collective::kAlltoall, std::views::reverse(uneven), choices, &plan);
  return plan;
}

Plan scatter_reduce_gather(const std::string& name, const Grid& grid, const std::vector<Choice>& choices,
                           Collective collective) {
  Plan plan{name, collective, {}};
  const std::vector<std::int32_t> axes = axes_in_use(grid, choices);
  if (axes.empty()) return plan;
  const std::span outer(axes.begin(), axes.end() - 1);
  add_stages(Collective::kReduceScatter, outer, choices, &plan);
  add_stages(collective, std::span(&axes.back(), 1), choices, &plan);
  add_stages(Collective::kAllgather, std::views::reverse(outer), choices, &plan);
  return plan;
}

}  // namespace roda::plan
