#include "algorithms/plan/axes.h"

#include <algorithm>
#include <map>

#include "algorithms/plan/plan.h"

namespace roda::plan {

Axes::Axes(const Grid& grid, const Grid& order) {
  for (std::int32_t axis = 0; axis <= grid.last_axis(); ++axis) add_axis(grid, order, axis);
}

void Axes::add_axis(const Grid& grid, const Grid& order, std::int32_t axis) {
  const auto number = [](std::int32_t i) { return static_cast<std::size_t>(i); };
  std::map<std::vector<std::int32_t>, std::int32_t> numbers;
  std::vector<std::vector<std::int32_t>> groups;
  Axis& out = axes_.emplace_back();
  for (std::int32_t rank = 0; rank < grid.ranks(); ++rank) {
    std::vector<std::int32_t> others = grid.places[number(rank)];
    others.erase(others.begin() + axis);
    const auto [group, added] = numbers.emplace(std::move(others), static_cast<std::int32_t>(groups.size()));
    if (added) groups.emplace_back();
    out.group_of.push_back(group->second);
    groups[number(group->second)].push_back(rank);
  }
  out.index_of.resize(grid.places.size());
  const auto place = [&](std::int32_t rank) { return order.places[number(rank)][number(axis)]; };
  for (auto& group : groups) {
    std::sort(group.begin(), group.end(), [&](std::int32_t a, std::int32_t b) { return place(a) < place(b); });
    for (std::size_t i = 0; i < group.size(); ++i) out.index_of[number(group[i])] = static_cast<std::int32_t>(i);
    out.groups.push_back(std::make_shared<const std::vector<std::int32_t>>(std::move(group)));
  }
}

bool Axes::owns_share(std::int32_t rank, const std::vector<std::int32_t>& open) const {
  return std::all_of(open.begin(), open.end(), [&](std::int32_t axis) { return index(axis, rank) < width(axis); });
}

std::int32_t Axes::smallest_group(std::int32_t axis, const std::vector<std::int32_t>& open) const {
  std::size_t smallest = SIZE_MAX;
  for (const auto& group : groups(axis)) {
    if (owns_share(group->front(), open)) smallest = std::min(smallest, group->size());
  }
  return static_cast<std::int32_t>(smallest);
}

bool Axes::is_even(std::int32_t axis, const std::vector<std::int32_t>& open) const {
  const auto smallest = static_cast<std::size_t>(smallest_group(axis, open));
  return std::all_of(groups(axis).begin(), groups(axis).end(),
                     [&](const auto& group) { return group->size() == smallest || !owns_share(group->front(), open); });
}

}  // namespace roda::plan
