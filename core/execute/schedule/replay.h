// Plays the schedules of all ranks of a group once, without data, to learn what one rank's schedule does not say by
// itself: how long messages into Scratch are, and which chunks peers touch, when.
//
// Correct schedules order every pair of conflicting accesses, so the order seen in one replay holds in every run.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/schedule/schedule.h"
#include "core/execute/schedule/program.h"
#include "plugins/base/status.h"

namespace roda::execute {

struct ReplayResult {
  // Per lane and step of the rank; times are > 0 and grow.
  struct StepFacts {
    std::uint64_t time = 0;
    Operand received;  // kRecv into Scratch: extent and chunks of the message
  };
  std::vector<std::vector<StepFacts>> steps;
  // Per chunk of Input [0] and Output [1] of the rank: when a peer first and last read it or wrote it, 0 for never.
  std::vector<std::uint64_t> first_peer_access[2];
  std::vector<std::uint64_t> last_peer_access[2];
  std::vector<bool> read_by;       // [size] peers that read this rank's windows
  std::vector<bool> reads_from;    // [size] peers whose windows this rank reads
  std::vector<bool> reads_linger;  // [size]
};

Status replay(const schedule::Algorithm& algorithm, int rank, int size, int root, ReplayResult* result);

}  // namespace roda::execute
