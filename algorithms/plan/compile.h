// From a plan to what each rank does: one program for each, which is proved (verifier.h), simulated, printed and run.
//
// Its ops are copies, which bring data into the order in which it is sent, and calls: the plan's stages, each over the
// rank's group along the stage's axis. Data that a stage leaves for the next lies in Scratch, in regions:
//   allreduce, adasum  after a reduce-scatter the rank's share, one buffer for each depth of scattering;
//   broadcast       none, it goes from Output to Output;
//   the others      blocks in the order in which they are sent (buffer 0), and as they came (buffers 1 and 2 in turn).
//
// Pure values and functions, any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "algorithms/plan/grid.h"
#include "algorithms/plan/plan.h"
#include "algorithms/schedule/program.h"

namespace roda::plan {

// Blocks of more ranks than these are not composed: their routes would take too long to find.
inline constexpr std::int32_t kMostRoutedRanks = 1024;

// The work of one rank in one stage of an allreduce, a broadcast or a reduce.
struct Part {
  schedule::Members members;  // null: the rank sits this stage out
  std::int32_t index = 0;     // of the rank among them
  // The group works on the tensor's part number `part` of `parts` equal ones, and a reduce-scatter or allgather cuts
  // that into `shares`, of which member i < shares owns number i.
  std::int64_t part = 0;
  std::int64_t parts = 1;
  std::int32_t shares = 1;
  std::int32_t root = 0;  // the member that has the data, or gets it; of an Adasum: `parts`, or 0 for one
  bool has_work = false;  // the stage is run, not passed over (Grid::has_work)
};

// What one rank does in one stage of the others: a collective among `members` over blocks that lie in these orders.
//
//   allgather       block `from` starts on rank `from` and ends on every rank.
//   reduce-scatter  partial sums of block `to` are on every rank; the sum ends on rank `to`.
//   alltoall        block (from, to) starts on rank `from` and ends on rank `to`.
//
// Stages of the plan's own collective gather or reduce along their axis. Alltoall stages hand blocks over. Where groups
// along an axis differ in size, the smallest decides how many members of each, its width w, go on to other axes; the
// others hand their blocks to member (place mod w) first (allgather), or get theirs from it in the end (reduce-scatter,
// alltoall). So between two hosts a block travels once, whatever their sizes.
struct Route {
  schedule::Members members;           // null: the rank sits this stage out and keeps what it has
  std::int32_t index = 0;              // of the rank among them
  std::vector<schedule::Block> in;     // what the rank brings
  std::vector<std::int32_t> in_ends;   // [members] alltoall, reduce-scatter: the first of `in` that are not for it
  std::vector<schedule::Block> out;    // what the rank ends with
  std::vector<std::int32_t> out_ends;  // [members] allgather, alltoall: the first of `out` that are not from it
  std::int32_t most_blocks = 0;        // from one member to another, the largest number in the group
};

class Compiler {
 public:
  // The plan is one of plan.h's over this grid. Both outlive it. `root`: of a broadcast or a reduce. `only`: the
  // program of that rank alone will be asked for. Where blocks travel (has_routes) time and memory grow with the square
  // of the ranks.
  Compiler(const Plan& plan, const Grid& grid, std::int32_t root = 0, std::optional<std::int32_t> only = std::nullopt);
  Compiler(const Compiler&) = delete;
  Compiler& operator=(const Compiler&) = delete;

  // Returns what is wrong with the plan: an algorithm that there isn't, or that can't be compiled for its group.
  std::optional<std::string> compile(std::int32_t rank, schedule::Program* program) const;
  // The same program, but that the programs of its calls are outlines, without ops.
  schedule::Program outline(std::int32_t rank) const;
  // Where no blocks travel.
  Part part(std::size_t stage, std::int32_t rank) const;

 private:
  struct Cut {
    Shares before;             // the axes that are scattered when the stage begins
    std::int32_t members = 1;  // that own a share of what it scatters or gathers
  };
  void cut_stages();
  void find_everybody();
  // Takes every block along its way (routes.cc).
  void find_routes(std::optional<std::int32_t> only);
  Part rooted_part(std::int32_t axis, std::int32_t rank) const;
  // A stage's call, of whose program the outline alone is there; the chunks that belong to members are not told.
  schedule::Call call(std::size_t stage, const schedule::Members& members, std::int32_t index,
                      std::int32_t root = 0) const;
  schedule::Program empty(std::int32_t rank) const;
  std::int32_t share_chunks(const Part& part) const;
  std::vector<std::int32_t> share_ends(const Part& part) const;
  schedule::Program shares(std::int32_t rank) const;
  schedule::Program rooted(std::int32_t rank) const;
  schedule::Program blocks(std::int32_t rank) const;

  const Plan& plan_;
  const Grid& grid_;
  const Grid turned_;  // towards the root, where there is one
  const std::int32_t root_;
  std::int32_t chunks_ = 1;                 // of an allreduce
  std::vector<Cut> cuts_;                   // [stage] where no blocks travel
  schedule::Members everybody_;             // of an Adasum: units by units
  std::vector<std::int32_t> index_of_;      // [rank] among them
  std::vector<std::vector<Route>> routes_;  // [rank][stage] where they do; of `only` alone where it is given
};

}  // namespace roda::plan
