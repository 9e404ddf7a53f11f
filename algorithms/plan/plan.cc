#include "algorithms/plan/plan.h"

#include <algorithm>
#include <map>

namespace roda::plan {

using schedule::Collective;

namespace {

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

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

}  // namespace roda::plan
