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
  switch (schedule.collective) {
    case Collective::kAllreduce:
    case Collective::kAdasum:
      return is_input && schedule.in_place ? 0 : schedule.chunks;
    case Collective::kAllgather:
      return is_input ? (schedule.in_place ? 0 : 1) : schedule.chunks;
    case Collective::kBroadcast:
      return is_input && schedule.in_place ? 0 : schedule.chunks;
    case Collective::kReduceScatter:
      return is_input ? schedule.chunks : 1;
    case Collective::kAlltoall:
      return schedule.chunks;
    case Collective::kBarrier:
      break;
  }
  return 0;
}

// Chunks with equal numbers have equal lengths, on whichever rank; nothing is known about others.
inline std::int64_t length_of(const Schedule& schedule, Space space, int chunk) {
  if (space == Space::kProducts) return -1;
  const std::int64_t rank = schedule.rank;
  const std::int64_t size = schedule.size;
  if (space == Space::kScratch && !schedule.scratch.empty()) {
    const Block& block = schedule.scratch[static_cast<std::size_t>(chunk)];
    if (schedule.collective == Collective::kAlltoall) return block.from * size + block.to;
    return schedule.collective == Collective::kAllgather ? block.from : block.to;
  }
  if (space == Space::kScratch) {
    if (!schedule.scratch_is_own) return chunk % schedule.chunks;
    return schedule.collective == Collective::kAlltoall ? rank * size + rank : rank;
  }
  switch (schedule.collective) {
    case Collective::kAlltoall:
      return space == Space::kInput ? rank * size + chunk : chunk * size + rank;
    case Collective::kReduceScatter:
      return space == Space::kInput ? chunk : rank;
    case Collective::kAllgather:
      return space == Space::kInput ? rank : chunk;
    default:
      return chunk;
  }
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
