// Which chunks a rank has, and which of them are equally long.
#pragma once

#include <cstdint>

#include "algorithms/schedule/schedule.h"

namespace roda::schedule::verifier {

// Chunks of the space; 0 where the collective does not have it.
inline int chunk_count(const Schedule& schedule, Space space) {
  if (space == Space::kScratch) return schedule.scratch_chunks;
  if (space == Space::kProducts) return schedule.product_chunks;
  const bool is_input = space == Space::kInput;
  const int extent = is_input ? entry_of(schedule.collective).input : entry_of(schedule.collective).output;
  const bool is_there =
      is_input ? reads_input(schedule) : !is_for_root(schedule.collective) || schedule.rank == schedule.root;
  if (extent == RODA_NOTHING || !is_there) return 0;
  return extent == RODA_OWN_PART ? 1 : schedule.chunks;
}

// Chunks with equal numbers have equal lengths, on whichever rank; nothing is known about others.
inline std::int64_t length_of(const Schedule& schedule, Space space, int chunk) {
  if (space == Space::kProducts) return -1;
  const std::int64_t rank = schedule.rank;
  const std::int64_t size = schedule.size;
  if (space == Space::kScratch && !schedule.scratch.empty()) {
    const Block& block = schedule.scratch[static_cast<std::size_t>(chunk)];
    if (is_between_pairs(schedule.collective)) return block.from * size + block.to;
    return block.to < 0 ? block.from : block.to;
  }
  if (space == Space::kScratch) {
    if (!schedule.scratch_is_own) return chunk % schedule.chunks;
    return is_between_pairs(schedule.collective) ? rank * size + rank : rank;
  }
  const bool is_input = space == Space::kInput;
  if (is_between_pairs(schedule.collective)) return is_input ? rank * size + chunk : chunk * size + rank;
  const int extent = is_input ? entry_of(schedule.collective).input : entry_of(schedule.collective).output;
  return extent == RODA_OWN_PART ? rank : chunk;
}

inline bool overlap(const Range& a, const Range& b) {
  return a.space == b.space && a.first < b.first + b.count && b.first < a.first + a.count;
}

// Whether the step writes this rank's own dst.
inline bool writes_locally(StepKind kind) {
  return kind == StepKind::kRecv || kind == StepKind::kRecvReduce || kind == StepKind::kCopy ||
         kind == StepKind::kReduce || kind == StepKind::kGet || kind == StepKind::kGetReduce ||
         kind == StepKind::kDots || kind == StepKind::kWeigh;
}

}  // namespace roda::schedule::verifier
