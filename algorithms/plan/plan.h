// A composed collective as data: stages that run one after the other, each over groups of ranks.
//
//   hierarchical allreduce = reduce-scatter(host) ; allreduce(across hosts) ; allgather(host)
//
// is one plan, and a 2-D torus is the same plan over another grid. A plan names algorithms and axes and nothing else:
// who runs a stage (a schedule over somebody's messages, or a collective of a library) is the engine's business. What
// each rank does follows from it (compile.h).
//
// Groups come from a Grid, which gives every rank a place along each axis, innermost first. Hosts in racks: axis 0
// counts the ranks of a host, axis 1 the hosts of a rack, axis 2 the racks. The group of a stage is the ranks whose
// places differ along its axis alone.
//
// What stages do to the data depends on the collective:
//   allreduce   reduce-scatters cut the group's data into shares, allgathers bring them back (Parts).
//   broadcast   from the outermost axis inwards, by one rank of each unit: the root's counterpart (Parts).
//   the others  blocks of the ranks travel stage by stage (Routes, in routes.h).
//
// Uneven grids. Of the groups along one axis the smallest decides into how many shares its data is cut: member i owns
// share i, members beyond that own nothing and sit the stages out until a later stage of the same axis reaches them. So
// hosts of 1, 2 and 3 ranks work as one share per host, hosts of 4 and 8 as four.
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

#include "algorithms/plan/axes.h"
#include "algorithms/schedule/schedule.h"

namespace roda::plan {

struct Grid {
  std::vector<std::string> axes;                  // what an axis' groups are inside of: "host", "rack", "world"
  std::vector<std::vector<std::int32_t>> places;  // [rank][axis]

  std::int32_t ranks() const { return static_cast<std::int32_t>(places.size()); }
  std::int32_t last_axis() const { return static_cast<std::int32_t>(axes.size()) - 1; }
};

struct Stage {
  schedule::Collective collective = schedule::Collective::kAllreduce;
  std::string algorithm;  // as in schedule::algorithms(), or schedule::kNative
  std::int32_t axis = 0;

  friend bool operator==(const Stage&, const Stage&) = default;
};

inline constexpr std::size_t kMostStages = 16;

// Stages of an allreduce nest: an allgather gathers what the last open reduce-scatter scattered, along the same axis.
// An allreduce may stand anywhere between. Stages of a broadcast go inwards. Routes says what the others may be.
struct Plan {
  std::string name;
  schedule::Collective collective = schedule::Collective::kAllreduce;
  std::vector<Stage> stages;

  friend bool operator==(const Plan&, const Plan&) = default;
};

// What one rank does in one stage.
struct Part {
  schedule::Members members;  // null: the rank sits this stage out
  std::int32_t index = 0;     // of the rank among them
  // The group works on the tensor's part number `part` of `parts` equal ones, and a reduce-scatter or allgather cuts
  // that into `shares`, of which member i < shares owns number i.
  std::int64_t part = 0;
  std::int64_t parts = 1;
  std::int32_t shares = 1;
  std::int32_t root = 0;  // of a broadcast: the member that has the data
  bool has_work = false;  // the stage is run, not passed over (Axes::has_work)
};

// Why the plan can't run on the grid, in words that name the stage; nullopt: its stages fit each other and the grid.
// Whether the result is right is for verify() in expand.h to say.
std::optional<std::string> wrong_with(const Plan& plan, const Grid& grid);

// Whether blocks travel: for Routes instead of Parts.
inline bool has_routes(const Plan& plan) {
  return plan.stages.size() > 1 && plan.collective != schedule::Collective::kAllreduce &&
         plan.collective != schedule::Collective::kBroadcast;
}

// The grid turned so that the units that hold rank `root` come first on every axis but the last: the ranks whose places
// are 0 there are the root and its counterparts in the other units. Every unit has one, however few ranks it has.
Grid rooted(const Grid& grid, std::int32_t root);

// All ranks' parts of all stages. Keeps copies of what it needs. The plan must fit the grid (wrong_with), or be of one
// stage, which may then be any collective: an algorithm that is not composed. `root`: of a broadcast.
class Parts {
 public:
  Parts(const Plan& plan, const Grid& grid, std::int32_t root = 0);

  Part of(std::size_t stage, std::int32_t rank) const;

 private:
  struct Step {
    std::int32_t axis = 0;
    std::int32_t shares = 1;
    std::vector<std::int32_t> open;  // axes that are scattered
  };
  void open_stages(const Plan& plan);
  Part of_broadcast(std::int32_t axis, std::int32_t rank) const;

  std::int32_t root_;
  Grid turned_;  // of a broadcast
  Axes axes_;
  std::vector<Step> steps_;
};

std::string to_text(const Plan& plan, const Grid& grid);  // "hierarchical: reducescatter(host, ring); ..."

}  // namespace roda::plan
