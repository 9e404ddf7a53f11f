// From a plan to what each rank does: one schedule for each, which is proved (verify.h), simulated, printed and run.
//
// Its steps are copies, which bring data into the order in which it is sent, and calls: the plan's stages, each over
// the rank's group along the stage's axis. Data that a stage leaves for the next lies in Scratch, in regions:
//   allreduce       after a reduce-scatter the rank's share, one buffer for each depth of scattering;
//   broadcast       none, it goes from Output to Output;
//   the others      blocks in the order in which they are sent (buffer 0), and as they came (buffers 1 and 2 in turn).
//
// Pure values and functions, any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "algorithms/plan/plan.h"
#include "algorithms/plan/routes.h"
#include "algorithms/schedule/schedule.h"

namespace roda::plan {

// Of more ranks blocks are not composed: their ways would take too long to find.
inline constexpr std::int32_t kMostRoutedRanks = 1024;

class Compiler {
 public:
  // The plan fits the grid (wrong_with), or is one call over all ranks: then of any collective but a barrier. Keeps
  // copies. `root`: of a broadcast. `only`: the schedule of that rank alone will be asked for. Where blocks travel
  // (has_routes) time and memory grow with the square of the ranks.
  Compiler(const Plan& plan, const Grid& grid, std::int32_t root = 0, std::optional<std::int32_t> only = std::nullopt);

  // Why blocks don't end where they must; nullopt: as far as that goes the plan is right.
  const std::optional<std::string>& wrong() const { return wrong_; }
  schedule::Schedule schedule(std::int32_t rank) const;

 private:
  // Without the chunks that belong to members.
  schedule::Call call(std::size_t stage, const schedule::Members& members, std::int32_t index) const;
  schedule::Schedule empty(std::int32_t rank) const;
  std::int32_t share_chunks(const Part& part) const;
  std::vector<std::int32_t> share_ends(const Part& part) const;
  schedule::Schedule shares(std::int32_t rank) const;
  schedule::Schedule broadcast(std::int32_t rank) const;
  schedule::Schedule blocks(std::int32_t rank) const;

  Plan plan_;
  std::int32_t ranks_;
  std::int32_t root_;
  std::int32_t chunks_ = 1;  // of an allreduce
  std::optional<Parts> parts_;
  std::vector<std::vector<Route>> routes_;  // [rank][stage]; of `only` alone where it is given
  std::optional<std::string> wrong_;
};

}  // namespace roda::plan
