// How the members of a process set lie on the levels, as the grids that compositions are laid over.
//
// Pure; the same on every member but for `self`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "algorithms/plan/axes.h"
#include "algorithms/plan/plan.h"
#include "core/plan/levels.h"

namespace roda::engine {

// A grid, and what the planner asks of it.
struct GridFacts {
  struct Axis {
    int smallest = 1;        // ranks of the smallest group along it
    int largest = 1;         // of the largest
    std::vector<int> sizes;  // that groups of several ranks have, ascending
    int hosts = 1;           // on which the ranks of one group are, at most
  };
  plan::Grid grid;
  std::vector<Axis> axes;
  bool is_even = true;  // along each axis all groups have one size
  int axes_in_use = 0;  // along which there are neighbours
  // Where one axis is in use, or all those that are lead between hosts: the axis inside of them, along which every rank
  // is alone. A composition may give a rank a stage of its own there. -1: there is no such axis, or no need of it.
  int lonely_axis = -1;
  std::string missing;  // why there is no such grid; empty: there is one
};

class Shape {
 public:
  Shape() : Shape(Levels{{"host"}, {{0}}, 0}, 0) {}
  // `levels` of the members. `self`: this rank among the members; -1: not a member.
  Shape(const Levels& levels, int self);

  int size() const { return nested_.grid.ranks(); }
  int hosts() const { return hosts_; }
  int self() const { return self_; }
  // Members by host, hosts in the order of their first members.
  const std::vector<std::vector<int>>& table() const { return table_; }
  bool has_even_hosts() const;
  // Of the levels; equal for equal levels.
  std::uint64_t hash() const { return hash_; }

  // What a composition of that name is laid over: the nested levels, or for "torus" a torus of hosts and the ranks in
  // them (of two factors of the hosts, where each has one rank).
  const GridFacts& grid(const std::string& composition) const { return composition == "torus" ? torus_ : nested_; }

 private:
  int self_ = -1;
  int hosts_ = 1;
  std::uint64_t hash_ = 0;
  std::vector<std::vector<int>> table_;
  GridFacts nested_;
  GridFacts torus_;
};

}  // namespace roda::engine
