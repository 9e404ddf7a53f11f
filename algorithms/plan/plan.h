// A composed collective as data: stages that run one after the other, each over groups of ranks.
//
//   hierarchical allreduce = reduce-scatter(host) ; allreduce(across hosts) ; allgather(host)
//
// is one plan, and a 2-D torus is the same plan over another grid. A plan names algorithms and axes and nothing else:
// who runs a stage (a schedule over somebody's messages, or a collective of a library) is the engine's business. What
// each rank does follows from it (compile.h).
//
// What stages do to the data depends on the collective:
//   allreduce   reduce-scatters cut the group's data into shares (Shares), allgathers bring them back.
//   broadcast   from the outermost axis inwards, by one rank of each unit: the root's counterpart. A reduce is the same
//               the other way.
//   adasum      as an allreduce, with one Adasum in the middle: among all ranks, whatever its axis.
//   the others  blocks of the ranks travel stage by stage (Route, in compile.h).
//
// A rank without neighbours along an axis passes the axis' stages over. Where no rank has any, plans have no such
// stages, but for those that were asked to (Choice::even_alone): then every rank runs them, in a group of its own.
//
// Between two stages nobody waits for anybody: a rank starts stage s + 1 of a slice of the data when its own stage s of
// that slice has ended. Slices overlap.
//
// Pure values and functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/plan/grid.h"
#include "algorithms/schedule/schedule.h"

namespace roda::plan {

struct Stage {
  schedule::Collective collective = schedule::Collective::kAllreduce;
  std::string algorithm;  // as in schedule::algorithms(), or schedule::kNative
  std::int32_t axis = 0;

  friend bool operator==(const Stage&, const Stage&) = default;
};

inline constexpr std::size_t kMostStages = 16;

// Stages of an allreduce nest: an allgather gathers what the last open reduce-scatter scattered, along the same axis.
// An allreduce may stand anywhere between. Stages of a broadcast go inwards, of a reduce outwards.
struct Plan {
  std::string name;
  schedule::Collective collective = schedule::Collective::kAllreduce;
  std::vector<Stage> stages;

  friend bool operator==(const Plan&, const Plan&) = default;
};

// Whether blocks travel, stage by stage.
inline bool has_routes(const Plan& plan) { return !schedule::is_cut(plan.collective); }

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

  const std::string& algorithm(schedule::Collective collective) const;
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
