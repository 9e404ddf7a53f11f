#include "algorithms/plan/plan.h"

#include <algorithm>
#include <map>

namespace roda::plan {

using schedule::Collective;

namespace {

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

std::string place_of(std::size_t stage) { return "stage " + std::to_string(stage) + ": "; }

std::optional<std::string> wrong_grid(const Grid& grid) {
  if (grid.places.empty()) return "the grid has no ranks";
  std::map<std::vector<std::int32_t>, std::size_t> seen;
  for (std::size_t rank = 0; rank < grid.places.size(); ++rank) {
    const auto& place = grid.places[rank];
    if (place.size() != grid.axes.size()) return "rank " + std::to_string(rank) + " has no place on every axis";
    const auto [other, added] = seen.emplace(place, rank);
    if (!added) return "ranks " + std::to_string(other->second) + " and " + std::to_string(rank) + " have one place";
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> wrong_with(const Plan& plan, const Grid& grid) {
  if (auto wrong = wrong_grid(grid)) return wrong;
  if (plan.collective != Collective::kAllreduce) return "only allreduce is composed of stages";
  std::vector<std::int32_t> open;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    if (stage.axis < 0 || at(stage.axis) >= grid.axes.size()) return place_of(s) + "there is no such axis";
    if (stage.collective == Collective::kReduceScatter) {
      if (std::count(open.begin(), open.end(), stage.axis) > 0) return place_of(s) + "the axis is scattered already";
      open.push_back(stage.axis);
    } else if (stage.collective == Collective::kAllgather) {
      if (open.empty() || open.back() != stage.axis) return place_of(s) + "gathers what was not scattered last";
      open.pop_back();
    } else if (stage.collective != Collective::kAllreduce) {
      return place_of(s) + "an allreduce has no such stage: " + schedule::collective_name(stage.collective);
    }
  }
  if (!open.empty()) return "axis " + grid.axes[at(open.back())] + " is scattered and never gathered";
  return std::nullopt;
}

void Parts::add_axis(const Grid& grid, std::int32_t axis) {
  std::map<std::vector<std::int32_t>, std::int32_t> numbers;
  Axis& out = axes_.emplace_back();
  for (std::int32_t rank = 0; rank < grid.ranks(); ++rank) {
    std::vector<std::int32_t> others = grid.places[at(rank)];
    others.erase(others.begin() + axis);
    const auto [number, added] = numbers.emplace(std::move(others), static_cast<std::int32_t>(out.groups.size()));
    if (added) out.groups.emplace_back();
    out.group_of.push_back(number->second);
    out.groups[at(number->second)].push_back(rank);
  }
  out.index_of.resize(grid.places.size());
  for (auto& group : out.groups) {
    std::sort(group.begin(), group.end(), [&](std::int32_t a, std::int32_t b) {
      return grid.places[at(a)][at(axis)] < grid.places[at(b)][at(axis)];
    });
    for (std::size_t i = 0; i < group.size(); ++i) out.index_of[at(group[i])] = static_cast<std::int32_t>(i);
  }
}

bool Parts::owns_share(std::int32_t rank, const std::vector<std::int32_t>& open) const {
  return std::all_of(open.begin(), open.end(),
                     [&](std::int32_t axis) { return axes_[at(axis)].index_of[at(rank)] < widths_[at(axis)]; });
}

// Of the groups whose ranks take part while `open` is scattered.
std::int32_t Parts::smallest_group(std::int32_t axis, const std::vector<std::int32_t>& open) const {
  std::size_t smallest = SIZE_MAX;
  for (const auto& group : axes_[at(axis)].groups) {
    if (owns_share(group.front(), open)) smallest = std::min(smallest, group.size());
  }
  return static_cast<std::int32_t>(smallest);
}

Parts::Parts(const Plan& plan, const Grid& grid) : widths_(grid.axes.size(), 0) {
  for (std::size_t axis = 0; axis < grid.axes.size(); ++axis) add_axis(grid, static_cast<std::int32_t>(axis));
  std::vector<std::int32_t> open;
  for (const Stage& stage : plan.stages) {
    const bool closes = stage.collective == Collective::kAllgather && !open.empty();
    if (closes) open.pop_back();
    Step step{stage.axis, 1, open};
    if (!closes) widths_[at(stage.axis)] = smallest_group(stage.axis, open);
    if (stage.collective == Collective::kReduceScatter) open.push_back(stage.axis);
    if (stage.collective != Collective::kAllreduce) step.shares = widths_[at(stage.axis)];
    steps_.push_back(std::move(step));
  }
}

Part Parts::of(std::size_t stage, std::int32_t rank) const {
  const Step& step = steps_[stage];
  Part part;
  if (!owns_share(rank, step.open)) return part;
  const Axis& axis = axes_[at(step.axis)];
  part.members = axis.groups[at(axis.group_of[at(rank)])];
  part.index = axis.index_of[at(rank)];
  part.shares = step.shares;
  for (const std::int32_t open : step.open) {
    part.part = part.part * widths_[at(open)] + axes_[at(open)].index_of[at(rank)];
    part.parts *= widths_[at(open)];
  }
  return part;
}

std::string to_text(const Plan& plan, const Grid& grid) {
  std::string text = plan.name + ":";
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    text += std::string(s == 0 ? " " : "; ") + schedule::collective_name(stage.collective) + "(" +
            grid.axes[at(stage.axis)] + ", " + stage.algorithm + ")";
  }
  return text;
}

}  // namespace roda::plan
