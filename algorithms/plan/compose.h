// Makes grids and plans.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/plan/plan.h"

namespace roda::plan {

// `units[level][rank]`: number of the host, rack, ... that the rank is in; levels from the inside out, each unit inside
// one unit of the next level. Axes: one for each level, and "world". Ranks and units keep their order.
Grid nested_grid(const std::vector<std::string>& levels, const std::vector<std::vector<std::int32_t>>& units);

// Every rank in one group, "world".
Grid flat_grid(std::int32_t ranks);

// `dims[0]` consecutive ranks form a row, `dims[1]` rows a plane, ... Axes "x", "y", "z", "d3", ...
Grid torus_grid(const std::vector<std::int32_t>& dims);

// The most even two factors, the larger one first: 12 -> {4, 3}; a prime gives {prime, 1}.
std::vector<std::int32_t> even_dims(std::int32_t ranks);

// Names of algorithms for one axis.
struct Choice {
  std::string reduce_scatter = "ring";
  std::string allreduce = "ring";
  std::string allgather = "ring";
  std::string broadcast = "binomial";
  std::string alltoall = "pairwise";
  // Stages along it although every rank is alone there: a collective of one. What works on ranks' memory by itself then
  // does its part as it would among several.
  bool even_alone = false;
};

// Reduce-scatter along all axes but the last, allreduce along the last, allgather back. Axes along which every group
// has one rank are left out, unless their choice says otherwise. `choices`: one for each axis of the grid; the last one
// serves the rest.
Plan scatter_reduce_gather(const std::string& name, const Grid& grid, const std::vector<Choice>& choices);

// The plan of that collective over a nested grid, each byte between the units of the last axis once:
//   allreduce       scatter_reduce_gather
//   broadcast       from the outermost axis inwards
//   allgather       gathers from the outermost axis inwards
//   reduce-scatter  scatters from the innermost axis outwards
//   alltoall        blocks sorted by their places on each axis, innermost first
// The last three hand blocks over where groups differ in size (routes.h). Not for barriers.
Plan hierarchical(schedule::Collective collective, const Grid& grid, const std::vector<Choice>& choices);

inline Plan hierarchical(const Grid& grid, const std::vector<Choice>& choices) {
  return hierarchical(schedule::Collective::kAllreduce, grid, choices);
}

// An allreduce along each axis in turn, innermost first: as many rounds as axes, and every byte of every rank travels
// along each. For small data, on grids whose groups along an axis all have one size.
Plan reduce_along_each_axis(const std::string& name, const Grid& grid, const std::vector<Choice>& choices);

// Whether all groups along each axis have one size.
bool is_even(const Grid& grid);

inline Plan torus(const Grid& grid, const std::vector<Choice>& choices) {
  return scatter_reduce_gather("torus", grid, choices);
}

}  // namespace roda::plan
