#include "algorithms/plan/plan.h"

#include <algorithm>
#include <map>
#include <span>

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

std::optional<std::string> wrong_allreduce(const Plan& plan, const Grid& grid) {
  std::vector<std::int32_t> open;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
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

std::optional<std::string> wrong_broadcast(const Plan& plan) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    if (stage.collective != Collective::kBroadcast) {
      return place_of(s) + "a broadcast has no such stage: " + schedule::collective_name(stage.collective);
    }
    if (s > 0 && stage.axis >= plan.stages[s - 1].axis) return place_of(s) + "a broadcast goes inwards";
  }
  return std::nullopt;
}

// Blocks can be handed over along any axis; besides that, they are gathered or reduced.
std::optional<std::string> wrong_routes(const Plan& plan) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Collective collective = plan.stages[s].collective;
    if (collective == Collective::kAlltoall || collective == plan.collective) continue;
    return place_of(s) + "a" + (plan.collective == Collective::kReduceScatter ? " " : "n ") +
           schedule::collective_name(plan.collective) + " has no such stage: " + schedule::collective_name(collective);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> wrong_with(const Plan& plan, const Grid& grid) {
  if (auto wrong = wrong_grid(grid)) return wrong;
  if (plan.stages.size() > kMostStages) return "a plan has at most " + std::to_string(kMostStages) + " stages";
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const std::int32_t axis = plan.stages[s].axis;
    if (axis < 0 || at(axis) >= grid.axes.size()) return place_of(s) + "there is no such axis";
  }
  switch (plan.collective) {
    case Collective::kAllreduce:
      return wrong_allreduce(plan, grid);
    case Collective::kBroadcast:
      return wrong_broadcast(plan);
    case Collective::kBarrier:
      return "a barrier is not composed of stages";
    default:
      return wrong_routes(plan);
  }
}

Grid rooted(const Grid& grid, std::int32_t root) {
  Grid turned = grid;
  const auto& first = grid.places[at(root)];
  for (std::int32_t axis = 0; axis < grid.last_axis(); ++axis) {
    const auto unit_of = [&](const std::vector<std::int32_t>& place) {
      return std::vector<std::int32_t>(place.begin() + axis + 1, place.end());
    };
    std::map<std::vector<std::int32_t>, std::int32_t> sizes;
    for (const auto& place : grid.places) {
      auto& size = sizes[unit_of(place)];
      size = std::max(size, place[at(axis)] + 1);
    }
    for (std::size_t rank = 0; rank < grid.places.size(); ++rank) {
      const std::int32_t size = sizes[unit_of(grid.places[rank])];
      auto& place = turned.places[rank][at(axis)];
      place = ((place - first[at(axis)]) % size + size) % size;
    }
  }
  return turned;
}

Parts::Parts(const Plan& plan, const Grid& grid, std::int32_t root)
    : root_(root),
      turned_(plan.collective == Collective::kBroadcast ? rooted(grid, root) : Grid()),
      axes_(plan.collective == Collective::kBroadcast ? turned_ : grid, grid) {
  open_stages(plan);
}

void Parts::open_stages(const Plan& plan) {
  std::vector<std::int32_t> open;
  for (const Stage& stage : plan.stages) {
    const bool closes = stage.collective == Collective::kAllgather && !open.empty();
    if (closes) open.pop_back();
    Step step{stage.axis, 1, open};
    if (!closes) axes_.set_width(stage.axis, axes_.smallest_group(stage.axis, open));
    if (stage.collective == Collective::kReduceScatter) open.push_back(stage.axis);
    if (stage.collective != Collective::kAllreduce) step.shares = axes_.width(stage.axis);
    steps_.push_back(std::move(step));
  }
}

// One rank of each unit inside the axis takes part.
Part Parts::of_broadcast(std::int32_t axis, std::int32_t rank) const {
  Part part;
  const auto inner = [&](std::int32_t of) { return std::span(turned_.places[at(of)]).first(at(axis)); };
  if (std::ranges::any_of(inner(rank), [](std::int32_t place) { return place != 0; })) return part;
  part.members = axes_.group(axis, rank);
  part.index = axes_.index(axis, rank);
  const auto has_data = [&](std::int32_t member) {
    return axis == turned_.last_axis() ? member == root_ : turned_.places[at(member)][at(axis)] == 0;
  };
  part.root = static_cast<std::int32_t>(std::ranges::find_if(*part.members, has_data) - part.members->begin());
  part.has_work = axes_.has_work(axis, axes_.group(axis, rank));
  return part;
}

Part Parts::of(std::size_t stage, std::int32_t rank) const {
  const Step& step = steps_[stage];
  if (!turned_.places.empty()) return of_broadcast(step.axis, rank);
  Part part;
  if (!axes_.owns_share(rank, step.open)) return part;
  part.members = axes_.group(step.axis, rank);
  part.index = axes_.index(step.axis, rank);
  part.shares = step.shares;
  part.has_work = axes_.has_work(step.axis, axes_.group(step.axis, rank));
  for (const std::int32_t open : step.open) {
    part.part = part.part * axes_.width(open) + axes_.index(open, rank);
    part.parts *= axes_.width(open);
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
