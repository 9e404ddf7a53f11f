// One rank's schedule as the simulator runs it: who talks to whom and how much, with repeated rounds written once.
//
// Chunks are equal parts of the data (no 64-byte lines), so ranks with equal behaviours have equal programs.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/schedule/schedule.h"

namespace roda::sim {

enum class OpKind : std::uint8_t { kSend, kRecv, kGet, kPut, kSignal, kWait, kWork };
enum class Work : std::uint8_t { kNone, kReduce, kCopy };

struct Op {
  OpKind kind = OpKind::kSend;
  Work work = Work::kNone;  // done with what arrived, or with local data (kWork)
  std::int8_t signal = 0;
  std::int8_t blocked_by = 0;  // 1: not before the lane's last send has left, 2: the one before that, ...; 0: at once
  std::int32_t peer = 0;       // in the group; or how far ahead of the rank, see Program::relative
  double fraction = 0;         // of the stage's data

  friend bool operator==(const Op&, const Op&) = default;
};

struct Block {
  std::vector<Op> ops;
  std::int64_t repeat = 1;

  friend bool operator==(const Block&, const Block&) = default;
};

using LaneProgram = std::vector<Block>;

struct Program {
  bool relative = false;  // peers are distances around the circle of the group's ranks
  std::vector<LaneProgram> lanes;

  friend bool operator==(const Program&, const Program&) = default;
};

// `shares`: as in plan::Part; chunks per rank beyond it are empty, and nothing of them is sent. Chunks of allreduce and
// broadcast are all alike.
Program program_of(const schedule::Schedule& schedule, std::int32_t shares, bool relative);

// Steps once every block is written out.
std::int64_t steps_of(const Program& program);

}  // namespace roda::sim
