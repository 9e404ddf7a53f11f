#include "algorithms/plan/plan.h"

#include <algorithm>
#include <ranges>
#include <span>

namespace roda::plan {

using schedule::Collective;

namespace {

// The last choice serves the axes beyond.
Choice choice_of(const std::vector<Choice>& choices, std::int32_t axis) {
  return choices.empty() ? Choice{} : choices[std::min(static_cast<std::size_t>(axis), choices.size() - 1)];
}

// Axes along which some group has several ranks, or which are wanted all the same, innermost first.
std::vector<std::int32_t> axes_in_use(const Grid& grid, const std::vector<Choice>& choices) {
  std::vector<std::int32_t> axes;
  for (std::int32_t axis = 0; axis <= grid.last_axis(); ++axis) {
    if (!grid.is_singleton(axis) || choice_of(choices, axis).even_alone) axes.push_back(axis);
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
