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
#include <optional>
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

// Why the plan can't run on the grid, in words that name the stage; nullopt: its stages fit each other and the grid.
// Whether the result is right is for verify() in expand.h to say.
std::optional<std::string> wrong_with(const Plan& plan, const Grid& grid);

// Whether blocks travel, stage by stage.
inline bool has_routes(const Plan& plan) { return plan.stages.size() > 1 && !schedule::is_cut(plan.collective); }

std::string to_text(const Plan& plan, const Grid& grid);  // "hierarchical: reducescatter(host, ring); ..."

}  // namespace roda::plan
