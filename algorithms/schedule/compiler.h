// The parts of compile(): which chunks peers touch, and when, is learned by playing all ranks' programs once, without
// data (touches); then each chunk gets its place (placement).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "algorithms/schedule/program.h"

namespace roda::schedule {

// Which chunks of a rank its peers touch, when. Correct schedules order every pair of conflicting accesses, so the
// order seen in one game holds in every run.
struct Touches {
  std::vector<std::vector<std::uint64_t>> times;  // [lane][op] of the rank: > 0, growing
  // Per chunk of Input [0] and Output [1]: when a peer first and last read it or wrote it, 0 for never.
  std::vector<std::uint64_t> first[2];
  std::vector<std::uint64_t> last[2];
  std::vector<std::int32_t> readers[2];  // per chunk: which peer reads it there; kNobody, or kAllPeers for several
  std::vector<bool> read_by;             // [size] peers that read this rank's windows
  std::vector<bool> reads_from;          // [size] peers whose windows this rank reads
};

// Finds the touches of all ranks, or of one alone; false when the programs never end.
bool find_touches(const std::vector<Program>& ranks, std::optional<int> only, std::vector<Touches>* touches);

// Whether two operands may share a byte.
bool overlap(const Operand& a, const Operand& b);

// Fills program->contribution.
void list_contribution(Program* program);

// Where the chunks of a one-sided program lie: in the block that peers see, or in the user's memory. Only what peers
// touch is staged, and a last write that nobody looks at goes straight to the user. Fills Operand::in_user of all ops,
// and the lists of copies.
void place(const Touches& touches, Program* program);

}  // namespace roda::schedule
