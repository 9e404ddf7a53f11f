// How the data of one run of a composed schedule is cut into slices, and how long its chunks are in each.
//
// An allreduce or broadcast is cut as a whole, and each slice into the schedule's chunks; an Adasum is one slice. Where
// chunks are blocks of the ranks, slice k holds the k-th part of every block.
//
// Pure arithmetic; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "algorithms/schedule/schedule.h"
#include "core/execute/stage.h"

namespace roda::execute {

// Elements of the user's buffer, or of a region.
struct Extent {
  std::size_t begin = 0;
  std::size_t count = 0;
};

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

}  // namespace roda::execute
