// What one rank's programs (schedule/program.h, which the executor runs) cost: who talks to whom and how much, and what
// is copied, with repeated rounds written once.
//
// Chunks are equal parts of the data (no 64-byte lines), so ranks with equal behaviours have equal programs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "algorithms/plan/compile.h"
#include "algorithms/plan/plan.h"
#include "algorithms/schedule/program.h"
#include "algorithms/schedule/schedule.h"

namespace roda::sim {

using schedule::StepKind;

// What a step costs. `peer` is in the group, or how far ahead of the rank (ProgramCosts::relative), and bytes are per
// byte of the stage's data; of an Actor `peer` is the number of its slot, and bytes are per byte of a piece.
struct Cost {
  StepKind kind = StepKind::kSend;
  std::int8_t signal = 0;
  std::int8_t blocked_by = 0;  // 1: not before the lane's last send has left, 2: the one before that, ...; 0: at once
  std::int32_t peer = -1;      // -1: none
  double bytes = 0;
  double wire = 1;       // of a message: so much of its bytes travels, the rest is spared by a wire format
  bool encodes = false;  // a message in a format that no kRound has made just before
  bool follows = false;  // to or from another peer in the same step as the op before

  friend bool operator==(const Cost&, const Cost&) = default;
};

// Ops that are done so many times over.
struct Rounds {
  std::vector<Cost> ops;
  std::int64_t repeat = 1;

  friend bool operator==(const Rounds&, const Rounds&) = default;
};

using LaneCosts = std::vector<Rounds>;

struct ProgramCosts {
  bool relative = false;  // peers are distances around the circle of the group's ranks
  // Shares of the stage's data: copied into the block that peers see before the lanes, out of it after them, and the
  // contribution where it does not lie in the output.
  double copy_in = 0, copy_out = 0, carry = 0;
  std::vector<LaneCosts> lanes;

  friend bool operator==(const ProgramCosts&, const ProgramCosts&) = default;
};

// One rank's call of a stage.
struct StagePart {
  schedule::Members members;  // null: the rank sits the stage out, and there is no program
  std::int32_t index = 0;     // of the rank among them
  std::int32_t root = 0;
  std::int32_t shares = 0;  // members that chunks belong to
  double fraction = 1;      // share of the whole tensor that is this stage's data
  // Shares of the whole tensor: copied before the stage's lanes, and after them.
  double before = 0, after = 0;
  bool in_place = true;  // the contribution lies in the output
  const ProgramCosts* program = nullptr;

  // World rank of an op's peer.
  std::int32_t peer(const Cost& op) const {
    const auto size = static_cast<std::int32_t>(members->size());
    return (*members)[static_cast<std::size_t>(program->relative ? (index + op.peer) % size : op.peer)];
  }
};

class RankCosts {
 public:
  // Where there is a root it is rank 0. Where a plan's blocks travel and groups differ in size, each member of a group
  // is taken to have as much as the others, and to hand over as much to each. `each_rank`: make every rank's program by
  // itself, whatever its length.
  RankCosts(const plan::Plan& plan, const plan::Grid& grid, bool each_rank);

  // A plan of one stage that runs these schedules, whatever their algorithm: a user's.
  explicit RankCosts(std::vector<schedule::Schedule> ranks);

  // nullopt: everything was made.
  std::optional<std::string> wrong() const { return wrong_; }

  std::int32_t ranks() const { return ranks_; }
  std::size_t stages() const { return stages_.size(); }
  const StagePart& part(std::size_t stage, std::int32_t rank) const {
    return parts_[static_cast<std::size_t>(rank)][stage];
  }

 private:
  // stage, index (-1: all), size, shares, root
  using Key = std::tuple<std::size_t, std::int32_t, std::int32_t, std::int32_t, std::int32_t>;

  void add_only_parts(const plan::Grid& grid);
  void add_parts(const schedule::Program& rank);
  void even_out();
  void make_all(bool each_rank);
  void make(std::size_t stage, const StagePart& part, bool each_rank);
  void make_one_sided(const schedule::Algorithm& algorithm, const Key& key);
  bool make_relative(const schedule::Algorithm& algorithm, const Key& key);
  static Key key_of(std::size_t stage, const StagePart& part);
  // Null: not made yet.
  const ProgramCosts* find(std::size_t stage, const StagePart& part) const;
  // The part's program, with what is copied around it.
  static void take(const ProgramCosts* program, StagePart* part);

  std::int32_t ranks_ = 0;
  std::vector<plan::Stage> stages_;
  bool travels_ = false;                       // blocks do (plan::Route)
  std::vector<std::vector<StagePart>> parts_;  // [rank][stage]
  std::map<Key, ProgramCosts> programs_;
  std::optional<std::string> wrong_;
};

}  // namespace roda::sim
