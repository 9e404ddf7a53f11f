// The parts of compile(): which chunks peers touch, and when, is learned by playing the schedules of all ranks once,
// without data (replay); then each chunk gets its place (placement).
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/schedule/schedule.h"
#include "core/execute/schedule/program.h"
#include "plugins/base/status.h"

namespace roda::execute {

// Which chunks peers touch, when. Correct schedules order every pair of conflicting accesses, so the order seen in one
// replay holds in every run.
struct ReplayResult {
  std::vector<std::vector<std::uint64_t>> times;  // [lane][step] of the rank: > 0, growing
  // Per chunk of Input [0] and Output [1] of the rank: when a peer first and last read it or wrote it, 0 for never.
  std::vector<std::uint64_t> first_peer_access[2];
  std::vector<std::uint64_t> last_peer_access[2];
  std::vector<std::int32_t> readers[2];  // per chunk: which peer reads it there; kNobody, or kAllPeers for several
  std::vector<bool> read_by;             // [size] peers that read this rank's windows
  std::vector<bool> reads_from;          // [size] peers whose windows this rank reads
  std::vector<bool> reads_linger;        // [size]
};

Status replay(const schedule::Algorithm& algorithm, int rank, int size, int root, ReplayResult* result);

// Whether two operands may share a byte.
bool overlap(const Operand& a, const Operand& b);

// Fills program->contribution.
void list_contribution(Program* program);

// Where the chunks of a one-sided program lie: in the block that peers see, or in the user's memory. Only what peers
// touch is staged, and a last write that nobody looks at goes straight to the user. Fills Operand::in_user of all ops,
// and the lists of copies, from what the replay saw.
void place(const ReplayResult& facts, Program* program);

}  // namespace roda::execute
