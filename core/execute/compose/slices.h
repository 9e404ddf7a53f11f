// The slices of a composed schedule's data: how they are cut, and in which order they begin their steps.
//
// Pure arithmetic; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "algorithms/schedule/schedule.h"
#include "core/execute/stage.h"

namespace roda::execute {

// Elements of the user's buffer.
struct Extent {
  std::size_t begin = 0;
  std::size_t count = 0;
};

// How the data of one run are cut, and how long the chunks are in each slice.
//
// An allreduce or broadcast is cut as a whole, and each slice into the schedule's chunks; an Adasum is one slice. Where
// chunks are blocks of the ranks, slice k holds the k-th part of every block.
class SliceMap {
 public:
  // `schedule` outlives it. `slice_bytes`: equal on all ranks.
  SliceMap(const schedule::Schedule& schedule, std::size_t slice_bytes);

  // Takes a run on; its counts live until it ends. RODA_ERR_INVALID: counts are missing.
  Status begin(const StageArgs& args);

  std::size_t slices() const { return slices_; }
  std::size_t element() const { return element_; }
  // Elements of the chunk in a slice.
  std::size_t length(const schedule::Block& block, std::size_t slice) const;
  // Of Input or Output: where the chunk's part lies in the user's buffer.
  Extent in_user(schedule::Space space, std::int32_t chunk, std::size_t slice) const;
  // Whether consecutive chunks of the user's buffers lie side by side in every slice.
  bool is_contiguous(const schedule::Range& range) const { return is_cut_ || slices_ == 1 || range.count <= 1; }
  const std::vector<schedule::Block>& blocks(schedule::Space space) const;
  // No slice has more bytes of these chunks.
  std::size_t most_bytes(const schedule::Block* blocks, std::size_t count) const;
  // Elements that no part of a block exceeds in any slice.
  std::size_t longest_part() const;

 private:
  std::size_t whole_length(const schedule::Block& block) const;
  Extent slice(std::size_t number) const;

  const schedule::Schedule& schedule_;
  const bool is_cut_;
  const std::size_t slice_bytes_;
  const std::vector<schedule::Block> input_, output_;
  StageArgs args_;
  std::size_t element_ = 1;
  std::size_t slices_ = 0;
  std::size_t longest_ = 0;                                // elements of the longest block of all
  std::vector<std::size_t> input_begins_, output_begins_;  // elements before each block in the user's buffers
};

// In which order the slices of a composed schedule begin their steps.
//
// A step of a slice begins after the same step of the slice before. That suffices where stages are told apart by tags
// or slots. A group that tells its stages apart by their order alone (native collectives), or has fewer slots than
// slices in flight, needs one order over all of its steps, the same on every rank: the order of a pipeline in which
// every step takes one tick. Real slices drift away from that pipeline, but each of their waits is for something with a
// smaller (tick, slice), on every rank: so no ring of waits can close.
class StartOrder {
 public:
  // `in_flight`: slices on their way, equal on all ranks. `rivals[step]`: the other steps that must keep one order with
  // it.
  StartOrder(std::size_t in_flight, std::vector<std::vector<std::size_t>> rivals);

  void reset(std::size_t slices);
  // Whether the step of that slice is the next to begin, among its rivals too.
  bool may_begin(std::size_t step, std::size_t slice) const;
  void begun(std::size_t step) { ++next_[step]; }

 private:
  std::pair<std::size_t, std::size_t> place(std::size_t step, std::size_t slice) const;

  std::size_t in_flight_;
  std::vector<std::vector<std::size_t>> rivals_;
  std::vector<std::size_t> next_;  // [step] the slice whose turn it is
  std::size_t slices_ = 0;
};

}  // namespace roda::execute
