// How the executor cuts data in host memory, so that it is pipelined. What is predicted goes by the same.
//
// Pure values and functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "algorithms/plan/plan.h"

namespace roda::plan {

// In bytes. Equal on all ranks of a group.
struct SliceSizes {
  std::size_t slice_bytes = 1 << 20;         // of the whole tensor: messages are pipelined in slices of it
  std::uint32_t slices_in_flight = 4;        // W
  std::size_t segment_bytes = 256 << 10;     // longest message; longer ones go in parts
  std::size_t block_bytes = 256 << 10;       // staging block per rank (one-sided schedules)
  std::size_t get_bytes = 256 << 10;         // longest transport get or put
  std::size_t level_bytes = 2 << 20;         // slice of compositions: levels work on different slices at a time
  std::size_t share_bytes = 512 << 10;       // but no longer than this for each share of an allreduce
  std::size_t device_level_bytes = 8 << 20;  // on a device: its collectives cost more to begin and less to move
};

// Blocks that one slot of a group has, where the transport's signals and windows suffice: a one-sided schedule works
// through its data with that many slices in flight.
inline constexpr std::uint32_t kBlocksPerSlot = 3;

struct Slices {
  std::size_t bytes = 0;          // of each; 0: the data is not cut
  std::uint32_t in_flight = 1;    // at most
  std::size_t segment_bytes = 0;  // longest message, or transport get or put
};

// The slices of one stage. `needs`: its algorithm's schedule::Needs.
Slices stage_slices(const SliceSizes& sizes, schedule::Collective collective, std::uint32_t needs);

// In host memory a composition's slice, which its levels share out into so many parts; 1 where they don't.
std::size_t level_slice(const SliceSizes& sizes, std::int64_t shares);

// How many slices of a composition are under way. More gain nothing: while one slice is between hosts, one is on its
// way there and one on its way back.
inline constexpr std::uint32_t kLevelSlicesInFlight = 3;

// How a whole plan is cut.
struct Cut {
  Slices whole;
  std::vector<Slices> stages;  // [stage] of a composition: how each cuts its part of a slice once more; else empty
};
Cut cut_of(const Plan& plan, const SliceSizes& sizes = {});

}  // namespace roda::plan
