#include "algorithms/plan/compose.h"

#include <algorithm>
#include <map>

namespace roda::plan {

using schedule::Collective;

namespace {

// Numbers the values of each key in their order of appearance.
class Counter {
 public:
  std::int32_t place(std::int32_t key, std::int32_t value) {
    auto& values = seen_[key];
    return values.emplace(value, static_cast<std::int32_t>(values.size())).first->second;
  }

 private:
  std::map<std::int32_t, std::map<std::int32_t, std::int32_t>> seen_;
};

bool has_neighbours(const Grid& grid, std::int32_t axis) {
  const auto place = static_cast<std::size_t>(axis);
  return std::any_of(grid.places.begin(), grid.places.end(), [&](const auto& at) { return at[place] > 0; });
}

}  // namespace

Grid nested_grid(const std::vector<std::string>& levels, const std::vector<std::vector<std::int32_t>>& units) {
  Grid grid;
  grid.axes = levels;
  grid.axes.push_back("world");
  if (units.empty()) return grid;
  std::vector<Counter> counters(grid.axes.size());
  for (std::size_t rank = 0; rank < units[0].size(); ++rank) {
    std::vector<std::int32_t> place;
    auto inner = static_cast<std::int32_t>(rank);
    for (std::size_t axis = 0; axis < grid.axes.size(); ++axis) {
      const std::int32_t unit = axis < units.size() ? units[axis][rank] : 0;
      place.push_back(counters[axis].place(unit, inner));
      inner = unit;
    }
    grid.places.push_back(std::move(place));
  }
  return grid;
}

Grid flat_grid(std::int32_t ranks) {
  Grid grid = torus_grid({ranks});
  grid.axes = {"world"};
  return grid;
}

Grid torus_grid(const std::vector<std::int32_t>& dims) {
  static const std::vector<std::string> kNames = {"x", "y", "z"};
  Grid grid;
  std::int64_t ranks = 1;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    grid.axes.push_back(axis < kNames.size() ? kNames[axis] : "d" + std::to_string(axis));
    ranks *= dims[axis];
  }
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    std::vector<std::int32_t> place;
    std::int64_t rest = rank;
    for (const std::int32_t dim : dims) {
      place.push_back(static_cast<std::int32_t>(rest % dim));
      rest /= dim;
    }
    grid.places.push_back(std::move(place));
  }
  return grid;
}

std::vector<std::int32_t> even_dims(std::int32_t ranks) {
  std::int32_t small = 1;
  for (std::int32_t factor = 1; factor <= ranks / factor; ++factor) {
    if (ranks % factor == 0) small = factor;
  }
  return {ranks / small, small};
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
    if (has_neighbours(grid, axis) || choice_of(choices, axis).even_alone) axes.push_back(axis);
  }
  return axes;
}

// Adds stages of blocks that travel outwards along all axes but the last, and back along those that are uneven.
class Composer {
 public:
  Composer(const Grid& grid, const std::vector<Choice>& choices)
      : axes_(grid), in_use_(axes_in_use(grid, choices)), choices_(choices) {
    std::vector<std::int32_t> open;
    for (const std::int32_t axis : in_use_) {
      const bool folds = axis != in_use_.back() && !axes_.is_even(axis, open);
      folds_.push_back(folds);
      if (!folds) continue;
      axes_.set_width(axis, axes_.smallest_group(axis, open));
      open.push_back(axis);
    }
  }

  void add_outwards(Collective collective, bool only_uneven, Plan* plan) const {
    for (std::size_t i = 0; i < in_use_.size(); ++i) {
      if (!only_uneven || folds_[i]) add(collective, in_use_[i], plan);
    }
  }

  void add_inwards(Collective collective, bool only_uneven, Plan* plan) const {
    for (std::size_t i = in_use_.size(); i-- > 0;) {
      if (!only_uneven || folds_[i]) add(collective, in_use_[i], plan);
    }
  }

 private:
  void add(Collective collective, std::int32_t axis, Plan* plan) const {
    const Choice choice = choice_of(choices_, axis);
    const std::string& algorithm = collective == Collective::kAlltoall        ? choice.alltoall
                                   : collective == Collective::kReduceScatter ? choice.reduce_scatter
                                   : collective == Collective::kBroadcast     ? choice.broadcast
                                                                              : choice.allgather;
    plan->stages.push_back({collective, algorithm, axis});
  }

  Axes axes_;
  std::vector<std::int32_t> in_use_;
  std::vector<bool> folds_;  // [in use] the members that a smaller group lacks don't go on to other axes
  const std::vector<Choice>& choices_;
};

}  // namespace

bool is_even(const Grid& grid) {
  const Axes axes(grid);
  for (std::int32_t axis = 0; axis <= grid.last_axis(); ++axis) {
    if (!axes.is_even(axis, {})) return false;
  }
  return true;
}

Plan reduce_along_each_axis(const std::string& name, const Grid& grid, const std::vector<Choice>& choices) {
  Plan plan{name, Collective::kAllreduce, {}};
  for (const std::int32_t axis : axes_in_use(grid, choices)) {
    plan.stages.push_back({Collective::kAllreduce, choice_of(choices, axis).allreduce, axis});
  }
  return plan;
}

Plan hierarchical(Collective collective, const Grid& grid, const std::vector<Choice>& choices) {
  if (collective == Collective::kAllreduce) return scatter_reduce_gather("hierarchical", grid, choices);
  Plan plan{"hierarchical", collective, {}};
  const Composer composer(grid, choices);
  if (collective == Collective::kAllgather) composer.add_outwards(Collective::kAlltoall, true, &plan);
  if (collective == Collective::kAllgather || collective == Collective::kBroadcast) {
    composer.add_inwards(collective, false, &plan);
  } else {
    composer.add_outwards(collective, false, &plan);
    composer.add_inwards(Collective::kAlltoall, true, &plan);
  }
  return plan;
}

Plan scatter_reduce_gather(const std::string& name, const Grid& grid, const std::vector<Choice>& choices) {
  Plan plan;
  plan.name = name;
  std::vector<std::int32_t> axes = axes_in_use(grid, choices);
  if (axes.empty()) return plan;
  const std::int32_t last = axes.back();
  axes.pop_back();
  for (const std::int32_t axis : axes) {
    plan.stages.push_back({Collective::kReduceScatter, choice_of(choices, axis).reduce_scatter, axis});
  }
  plan.stages.push_back({Collective::kAllreduce, choice_of(choices, last).allreduce, last});
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    plan.stages.push_back({Collective::kAllgather, choice_of(choices, *axis).allgather, *axis});
  }
  return plan;
}

}  // namespace roda::plan
