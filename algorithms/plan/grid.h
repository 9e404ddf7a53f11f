// The ranks of one collective along axes, innermost first: axis 0 counts the ranks of a host, axis 1 the hosts of a
// rack.
//
// No second map of ranks: it is made of the job's for the members of one group, numbered from 0, and answers what plans
// ask: who runs a stage with whom. A torus lays the same ranks along axes that no level of the map has.
//
// Pure values and functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/schedule/schedule.h"
#include "algorithms/topology/topology.h"

namespace roda::plan {

class Grid {
 public:
  using Place = std::vector<std::int32_t>;  // along each axis

  Grid() = default;
  // `names`: what an axis' groups are inside of, "host", "rack", "world". `axes_in_hosts`: of the first so many axes
  // all groups lie inside hosts; along the others each rank of a group is on a host of its own.
  Grid(std::vector<std::string> names, std::vector<Place> places, std::int32_t axes_in_hosts = 0)
      : Grid(std::move(names), places, places, axes_in_hosts) {}
  // With the ranks of each group in the order of their places in `order`.
  Grid(std::vector<std::string> names, std::vector<Place> places, const std::vector<Place>& order,
       std::int32_t axes_in_hosts);

  std::int32_t ranks() const { return static_cast<std::int32_t>(places_.size()); }
  std::int32_t last_axis() const { return static_cast<std::int32_t>(names_.size()) - 1; }
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<Place>& places() const { return places_; }
  std::int32_t place(std::int32_t rank, std::int32_t axis) const {
    return places_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(axis)];
  }

  // The groups along an axis: ranks whose places differ along it alone.
  const std::vector<schedule::Members>& groups(std::int32_t axis) const { return at(axis).groups; }
  const schedule::Members& group(std::int32_t axis, std::int32_t rank) const {
    return at(axis).groups[static_cast<std::size_t>(at(axis).group_of[static_cast<std::size_t>(rank)])];
  }
  // The rank's index in its group along the axis.
  std::int32_t index(std::int32_t axis, std::int32_t rank) const {
    return at(axis).index_of[static_cast<std::size_t>(rank)];
  }

  // Ranks of the smallest and of the largest group along the axis, and the sizes of all groups of several, ascending.
  std::int32_t smallest(std::int32_t axis) const { return at(axis).smallest; }
  std::int32_t largest(std::int32_t axis) const { return at(axis).largest; }
  std::vector<std::int32_t> sizes(std::int32_t axis) const;
  // On how many hosts the ranks of one group are, at most.
  std::int32_t hosts(std::int32_t axis) const { return axis < axes_in_hosts_ ? 1 : largest(axis); }

  // Whether each group along the axis is one rank.
  bool is_singleton(std::int32_t axis) const { return largest(axis) <= 1; }
  // Whether a stage along the axis has something to do for the group. A rank that is alone among groups of several
  // keeps what it has; where all are alone the plan has the stage for its own sake.
  bool has_work(std::int32_t axis, const schedule::Members& group) const {
    return group->size() > 1 || is_singleton(axis);
  }
  // Axes along which there are neighbours, innermost first.
  std::vector<std::int32_t> axes_in_use() const;
  // The axis just inside the innermost one in use, along which every rank is alone: a composition may give a rank a
  // stage of its own there. -1: there is no such axis, or the innermost one in use lies inside hosts and is not the
  // only one.
  std::int32_t singleton_axis() const;
  // Along each axis all groups have one size.
  bool is_even() const;

 private:
  struct Axis {
    std::vector<schedule::Members> groups;
    std::vector<std::int32_t> group_of;  // [rank]
    std::vector<std::int32_t> index_of;  // [rank]
    std::int32_t smallest = INT32_MAX;
    std::int32_t largest = 0;
  };
  const Axis& at(std::int32_t axis) const { return axes_[static_cast<std::size_t>(axis)]; }
  void add_axis(const std::vector<Place>& order, std::int32_t axis);

  std::vector<std::string> names_;
  std::vector<Place> places_;  // [rank]
  std::int32_t axes_in_hosts_ = 0;
  std::vector<Axis> axes_;
};

// Which members of groups hold data while axes are scattered. Of the groups along one axis the smallest decides into
// how many shares its data is cut, the axis' width: member i owns share i, members beyond own nothing until the axis is
// closed. So hosts of 1, 2 and 3 ranks work as one share per host, hosts of 4 and 8 as four. The grid outlives it.
class Shares {
 public:
  explicit Shares(const Grid& grid) : grid_(&grid), widths_(grid.names().size()) {}

  void open(std::int32_t axis);
  // False: it was not open.
  bool close(std::int32_t axis) { return std::erase(open_, axis) > 0; }
  std::int32_t width(std::int32_t axis) const { return widths_[static_cast<std::size_t>(axis)]; }

  bool has_one(std::int32_t rank) const;
  // The rank's share of the whole, and how many there are.
  std::int64_t number(std::int32_t rank) const;
  std::int64_t count() const;
  // Ranks of the smallest group along the axis, of those whose ranks hold shares; whether all of these have one size.
  std::int32_t smallest_group(std::int32_t axis) const;
  bool is_even(std::int32_t axis) const;

 private:
  const Grid* grid_;
  std::vector<std::int32_t> open_;
  std::vector<std::int32_t> widths_;  // [axis]
};

// By levels of the topology (levels_of). Axes: one for each, and "world". Ranks and units keep their order.
Grid nested_grid(const std::vector<topology::Level>& levels);

// Every rank in one group, "world".
Grid flat_grid(std::int32_t ranks);

// `dims[0]` consecutive ranks form a row, `dims[1]` rows a plane, ... Axes "x", "y", "z", "d3", ...
Grid torus_grid(const std::vector<std::int32_t>& dims);

// The most even two factors, the larger one first: 12 -> {4, 3}; a prime gives {prime, 1}.
std::vector<std::int32_t> even_dims(std::int32_t ranks);

// Ranks of one host lie along x, hosts along y; hosts of one rank each along both, as even_dims() has it. `by_host`:
// the ranks of hosts of one size.
Grid torus_of_hosts(const Grid& by_host);

// The grid turned so that the units that hold rank `root` come first on every axis but the last: the ranks whose places
// are 0 there are the root and its counterparts in the other units. Every unit has one, however few ranks it has.
Grid rooted(const Grid& grid, std::int32_t root);

}  // namespace roda::plan
