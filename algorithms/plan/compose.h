// Makes plans.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/plan/plan.h"

namespace roda::plan {

// Names of algorithms for one axis.
struct Choice {
  std::string reduce_scatter = "ring";
  std::string allreduce = "ring";
  std::string allgather = "ring";
  std::string broadcast = "binomial";
  std::string alltoall = "pairwise";
  std::string adasum = "vector_halving";
  std::string reduce = "binomial";
  // Stages along it although every rank is alone there: a collective of one. What works on ranks' memory by itself then
  // does its part as it would among several.
  bool even_alone = false;
};

// Reduce-scatter along all axes but the last, allreduce along the last, allgather back. Axes along which every group
// has one rank are left out, unless their choice says otherwise. `choices`: one for each axis of the grid; the last one
// serves the rest.
Plan scatter_reduce_gather(const std::string& name, const Grid& grid, const std::vector<Choice>& choices,
                           schedule::Collective collective = schedule::Collective::kAllreduce);

// The plan of that collective over a nested grid, each byte between the units of the last axis once:
//   allreduce       scatter_reduce_gather
//   adasum          the same with an Adasum, of the sums over all axes but the last, in the middle
//   broadcast       from the outermost axis inwards
//   reduce          from the innermost axis outwards
//   allgather       gathers from the outermost axis inwards
//   reduce-scatter  scatters from the innermost axis outwards
//   alltoall        blocks sorted by their places on each axis, innermost first
// The last three hand blocks over where groups differ in size (Route). Not for barriers.
Plan hierarchical(schedule::Collective collective, const Grid& grid, const std::vector<Choice>& choices);

inline Plan hierarchical(const Grid& grid, const std::vector<Choice>& choices) {
  return hierarchical(schedule::Collective::kAllreduce, grid, choices);
}

// An allreduce along each axis in turn, innermost first: as many rounds as axes, and every byte of every rank travels
// along each. For small data, on grids whose groups along an axis all have one size.
Plan reduce_along_each_axis(const std::string& name, const Grid& grid, const std::vector<Choice>& choices);

inline Plan torus(const Grid& grid, const std::vector<Choice>& choices) {
  return scatter_reduce_gather("torus", grid, choices);
}

}  // namespace roda::plan
