#include "algorithms/plan/axes.h"

#include <algorithm>
#include <map>

#include "algorithms/plan/plan.h"

namespace roda::plan {
namespace {

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

}  // namespace

Axes::Axes(const Grid& grid, const Grid& order) {
  for (std::int32_t axis = 0; axis <= grid.last_axis(); ++axis) add_axis(grid, order, axis);
}

void Axes::add_axis(const Grid& grid, const Grid& order, std::int32_t axis) {
  std::map<std::vector<std::int32_t>, std::int32_t> numbers;
  Axis& out = axes_.emplace_back();
  for (std::int32_t rank = 0; rank < grid.ranks(); ++rank) {
    std::vector<std::int32_t> others = grid.places[roda::plan::at(rank)];
    others.erase(others.begin() + axis);
    const auto [number, added] = numbers.emplace(std::move(others), static_cast<std::int32_t>(out.groups.size()));
    if (added) out.groups.emplace_back();
    out.group_of.push_back(number->second);
    out.groups[roda::plan::at(number->second)].push_back(rank);
  }
  out.index_of.resize(grid.places.size());
  const auto place = [&](std::int32_t rank) { return order.places[roda::plan::at(rank)][roda::plan::at(axis)]; };
  for (auto& group : out.groups) {
    std::sort(group.begin(), group.end(), [&](std::int32_t a, std::int32_t b) { return place(a) < place(b); });
    for (std::size_t i = 0; i < group.size(); ++i) {
      out.index_of[roda::plan::at(group[i])] = static_cast<std::int32_t>(i);
    }
  }
}

bool Axes::owns_share(std::int32_t rank, const std::vector<std::int32_t>& open) const {
  return std::all_of(open.begin(), open.end(), [&](std::int32_t axis) { return index(axis, rank) < width(axis); });
}

std::int32_t Axes::smallest_group(std::int32_t axis, const std::vector<std::int32_t>& open) const {
  std::size_t smallest = SIZE_MAX;
  for (const auto& group : groups(axis)) {
    if (owns_share(group.front(), open)) smallest = std::min(smallest, group.size());
  }
  return static_cast<std::int32_t>(smallest);
}

bool Axes::is_even(std::int32_t axis, const std::vector<std::int32_t>& open) const {
  const auto smallest = static_cast<std::size_t>(smallest_group(axis, open));
  return std::all_of(groups(axis).begin(), groups(axis).end(),
                     [&](const auto& group) { return group.size() == smallest || !owns_share(group.front(), open); });
}

}  // namespace roda::plan
