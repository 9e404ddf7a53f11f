// Groups of a grid's ranks along its axes, and who of them holds a share of the data while axes are scattered.
//
// Pure value, any thread once it is built.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/schedule/schedule.h"

namespace roda::plan {

struct Grid;

class Axes {
 public:
  explicit Axes(const Grid& grid) : Axes(grid, grid) {}
  // Groups of `grid`, each in the order of its ranks' places in `order`, a grid of the same axes.
  Axes(const Grid& grid, const Grid& order);

  // The groups along an axis.
  const std::vector<schedule::Members>& groups(std::int32_t axis) const { return at(axis).groups; }
  const schedule::Members& group(std::int32_t axis, std::int32_t rank) const {
    return at(axis).groups[static_cast<std::size_t>(at(axis).group_of[static_cast<std::size_t>(rank)])];
  }
  // Of the rank in its group.
  std::int32_t index(std::int32_t axis, std::int32_t rank) const {
    return at(axis).index_of[static_cast<std::size_t>(rank)];
  }

  // Whether each group along the axis is one rank.
  bool is_lonely(std::int32_t axis) const { return at(axis).groups.size() == at(axis).group_of.size(); }
  // Whether a stage along the axis has something to do for the group. A rank that is alone among groups of several
  // keeps what it has; where all are alone the plan has the stage for its own sake.
  bool has_work(std::int32_t axis, const schedule::Members& group) const {
    return group->size() > 1 || is_lonely(axis);
  }

  // Shares into which an axis was scattered; 0 before that.
  std::int32_t width(std::int32_t axis) const { return at(axis).width; }
  void set_width(std::int32_t axis, std::int32_t width) { axes_[static_cast<std::size_t>(axis)].width = width; }
  // Whether the rank holds a share while the axes in `open` are scattered to their widths.
  bool owns_share(std::int32_t rank, const std::vector<std::int32_t>& open) const;
  // Ranks of the smallest group along the axis, of those that hold shares while `open` is scattered.
  std::int32_t smallest_group(std::int32_t axis, const std::vector<std::int32_t>& open) const;
  // Whether all of those groups have one size.
  bool is_even(std::int32_t axis, const std::vector<std::int32_t>& open) const;

 private:
  struct Axis {
    std::vector<schedule::Members> groups;
    std::vector<std::int32_t> group_of;  // [rank]
    std::vector<std::int32_t> index_of;  // [rank]
    std::int32_t width = 0;
  };
  const Axis& at(std::int32_t axis) const { return axes_[static_cast<std::size_t>(axis)]; }
  void add_axis(const Grid& grid, const Grid& order, std::int32_t axis);

  std::vector<Axis> axes_;
};

}  // namespace roda::plan
