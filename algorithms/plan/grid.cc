#include "algorithms/plan/grid.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace roda::plan {
namespace {

std::size_t slot(std::int32_t i) { return static_cast<std::size_t>(i); }

}  // namespace

Grid::Grid(std::vector<std::string> names, std::vector<Place> places, const std::vector<Place>& order,
           std::int32_t axes_in_hosts)
    : names_(std::move(names)), places_(std::move(places)), axes_in_hosts_(axes_in_hosts) {
  for (std::int32_t axis = 0; axis <= last_axis(); ++axis) add_axis(order, axis);
}

void Grid::add_axis(const std::vector<Place>& order, std::int32_t axis) {
  std::map<Place, std::int32_t> numbers;
  std::vector<std::vector<std::int32_t>> groups;
  Axis& out = axes_.emplace_back();
  for (std::int32_t rank = 0; rank < ranks(); ++rank) {
    Place others = places_[slot(rank)];
    others.erase(others.begin() + axis);
    const auto [group, added] = numbers.emplace(std::move(others), static_cast<std::int32_t>(groups.size()));
    if (added) groups.emplace_back();
    out.group_of.push_back(group->second);
    groups[slot(group->second)].push_back(rank);
  }
  out.index_of.resize(places_.size());
  const auto place = [&](std::int32_t rank) { return order[slot(rank)][slot(axis)]; };
  for (auto& group : groups) {
    std::ranges::sort(group, [&](std::int32_t a, std::int32_t b) { return place(a) < place(b); });
    for (std::size_t i = 0; i < group.size(); ++i) out.index_of[slot(group[i])] = static_cast<std::int32_t>(i);
    out.smallest = std::min(out.smallest, static_cast<std::int32_t>(group.size()));
    out.largest = std::max(out.largest, static_cast<std::int32_t>(group.size()));
    out.groups.push_back(std::make_shared<const std::vector<std::int32_t>>(std::move(group)));
  }
}

std::vector<std::int32_t> Grid::sizes(std::int32_t axis) const {
  std::set<std::int32_t> sizes;
  for (const auto& group : groups(axis)) sizes.insert(static_cast<std::int32_t>(group->size()));
  sizes.erase(1);
  return {sizes.begin(), sizes.end()};
}

std::vector<std::int32_t> Grid::axes_in_use() const {
  std::vector<std::int32_t> axes;
  for (std::int32_t axis = 0; axis <= last_axis(); ++axis) {
    if (!is_singleton(axis)) axes.push_back(axis);
  }
  return axes;
}

std::int32_t Grid::singleton_axis() const {
  const std::vector<std::int32_t> used = axes_in_use();
  if (used.empty() || (used.size() > 1 && hosts(used.front()) == 1)) return -1;
  return used.front() - 1;
}

bool Grid::is_even() const {
  for (std::int32_t axis = 0; axis <= last_axis(); ++axis) {
    if (smallest(axis) != largest(axis)) return false;
  }
  return true;
}

void Shares::open(std::int32_t axis) {
  widths_[slot(axis)] = smallest_group(axis);
  open_.push_back(axis);
}

bool Shares::has_one(std::int32_t rank) const {
  return std::ranges::all_of(open_, [&](std::int32_t axis) { return grid_->index(axis, rank) < width(axis); });
}

std::int64_t Shares::number(std::int32_t rank) const {
  std::int64_t share = 0;
  for (const std::int32_t axis : open_) share = share * width(axis) + grid_->index(axis, rank);
  return share;
}

std::int64_t Shares::count() const {
  std::int64_t shares = 1;
  for (const std::int32_t axis : open_) shares *= width(axis);
  return shares;
}

std::int32_t Shares::smallest_group(std::int32_t axis) const {
  std::size_t smallest = SIZE_MAX;
  for (const auto& group : grid_->groups(axis)) {
    if (has_one(group->front())) smallest = std::min(smallest, group->size());
  }
  return static_cast<std::int32_t>(smallest);
}

bool Shares::is_even(std::int32_t axis) const {
  const auto smallest = static_cast<std::size_t>(smallest_group(axis));
  return std::all_of(grid_->groups(axis).begin(), grid_->groups(axis).end(),
                     [&](const auto& group) { return group->size() == smallest || !has_one(group->front()); });
}

Grid nested_grid(const std::vector<topology::Level>& levels) {
  std::vector<std::string> names;
  for (const topology::Level& level : levels) names.push_back(level.name);
  names.emplace_back("world");
  std::vector<Grid::Place> places;
  std::map<std::pair<std::size_t, std::int32_t>, std::map<std::int32_t, std::int32_t>> seen;  // by axis and unit
  for (std::size_t rank = 0; rank < levels.front().units.size(); ++rank) {
    Grid::Place& place = places.emplace_back();
    auto inner = static_cast<std::int32_t>(rank);
    for (std::size_t axis = 0; axis < names.size(); ++axis) {
      const std::int32_t unit = axis < levels.size() ? levels[axis].units[rank] : 0;
      auto& numbers = seen[{axis, unit}];  // in the order of their appearance
      place.push_back(numbers.emplace(inner, static_cast<std::int32_t>(numbers.size())).first->second);
      inner = unit;
    }
  }
  return {std::move(names), std::move(places), static_cast<std::int32_t>(topology::host_level(levels)) + 1};
}

Grid flat_grid(std::int32_t ranks) {
  std::vector<Grid::Place> places;
  for (std::int32_t rank = 0; rank < ranks; ++rank) places.push_back({rank});
  return {{"world"}, std::move(places)};
}

Grid torus_grid(const std::vector<std::int32_t>& dims) {
  static const std::vector<std::string> kNames = {"x", "y", "z"};
  std::vector<std::string> names;
  std::int64_t ranks = 1;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    names.push_back(axis < kNames.size() ? kNames[axis] : "d" + std::to_string(axis));
    ranks *= dims[axis];
  }
  std::vector<Grid::Place> places;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    Grid::Place& place = places.emplace_back();
    std::int64_t rest = rank;
    for (const std::int32_t dim : dims) {
      place.push_back(static_cast<std::int32_t>(rest % dim));
      rest /= dim;
    }
  }
  return {std::move(names), std::move(places)};
}

std::vector<std::int32_t> even_dims(std::int32_t ranks) {
  std::int32_t small = 1;
  for (std::int32_t factor = 1; factor <= ranks / factor; ++factor) {
    if (ranks % factor == 0) small = factor;
  }
  return {ranks / small, small};
}

Grid torus_of_hosts(const Grid& by_host) {
  if (by_host.largest(0) > 1) return {{"x", "y"}, by_host.places(), 1};
  return torus_grid(even_dims(by_host.ranks()));
}

Grid rooted(const Grid& grid, std::int32_t root) {
  std::vector<Grid::Place> turned = grid.places();
  const Grid::Place& first = grid.places()[slot(root)];
  for (std::int32_t axis = 0; axis < grid.last_axis(); ++axis) {
    const auto unit_of = [&](std::int32_t rank) {
      const Grid::Place& place = grid.places()[slot(rank)];
      return Grid::Place(place.begin() + axis + 1, place.end());
    };
    std::map<Grid::Place, std::int32_t> sizes;
    for (std::int32_t rank = 0; rank < grid.ranks(); ++rank) {
      auto& size = sizes[unit_of(rank)];
      size = std::max(size, grid.place(rank, axis) + 1);
    }
    for (std::int32_t rank = 0; rank < grid.ranks(); ++rank) {
      const std::int32_t size = sizes[unit_of(rank)];
      auto& place = turned[slot(rank)][slot(axis)];
      place = ((place - first[slot(axis)]) % size + size) % size;
    }
  }
  return {grid.names(), std::move(turned), grid.places(), 0};
}

}  // namespace roda::plan
