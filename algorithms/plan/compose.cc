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

Plan scatter_reduce_gather(const std::string& name, const Grid& grid, const std::vector<Choice>& choices) {
  Plan plan;
  plan.name = name;
  std::vector<std::int32_t> axes;
  for (std::int32_t axis = 0; axis < static_cast<std::int32_t>(grid.axes.size()); ++axis) {
    if (has_neighbours(grid, axis)) axes.push_back(axis);
  }
  const auto choice = [&](std::int32_t axis) {
    return choices.empty() ? Choice{} : choices[std::min(static_cast<std::size_t>(axis), choices.size() - 1)];
  };
  if (axes.empty()) return plan;
  const std::int32_t last = axes.back();
  axes.pop_back();
  for (const std::int32_t axis : axes) {
    plan.stages.push_back({Collective::kReduceScatter, choice(axis).reduce_scatter, axis});
  }
  plan.stages.push_back({Collective::kAllreduce, choice(last).allreduce, last});
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    plan.stages.push_back({Collective::kAllgather, choice(*axis).allgather, *axis});
  }
  return plan;
}

}  // namespace roda::plan
