// Where chunks lie: pure arithmetic over counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "algorithms/schedule/places.h"
#include "core/execute/memory.h"
#include "core/execute/stage.h"

namespace roda::execute {

// First element of chunk `chunk` when `count` elements are cut into `chunks` balanced ones that begin on 64-byte
// multiples. chunk == chunks gives count.
std::size_t balanced_begin(std::size_t count, std::size_t element, std::size_t chunks, std::size_t chunk);

using schedule::SpaceMap;

// How one stage's data is cut into slices, each a run of the same schedule.
class Layout {
 public:
  // `in_blocks`: `slice_bytes` are a staging block's, for all chunks together; otherwise only allreduce and broadcast
  // are cut. 0: nothing is.
  void plan(const StageArgs& args, int rank, int size, std::int32_t chunks, std::size_t slice_bytes, bool in_blocks);

  std::size_t slices() const { return slices_; }
  // Fills the maps for one slice; no allocation once they have grown.
  void map(std::size_t slice, SpaceMap* input, SpaceMap* output) const;
  // Bytes of Input and Output in a staging block, the same for every slice and rank.
  std::size_t block_bytes(schedule::Space space) const;
  // Where this rank's contribution begins in Output (allgather: its own chunk), and so how far the user's input is from
  // the user's output offsets.
  std::size_t contribution_begin() const { return contribution_begin_; }

 private:
  void cut(std::size_t whole, std::size_t wanted);
  void cut_chunks(std::size_t longest, std::size_t wanted);
  void balanced(std::size_t slice, SpaceMap* map) const;
  void counted(const std::size_t* counts, std::size_t slice, bool stride, SpaceMap* map) const;

  schedule::Collective collective_ = schedule::Collective::kAllreduce;
  std::size_t element_ = 1;
  std::size_t count_ = 0;
  const std::size_t* send_counts_ = nullptr;
  const std::size_t* recv_counts_ = nullptr;
  int rank_ = 0;
  int size_ = 1;
  std::int32_t chunks_ = 1;
  bool in_blocks_ = false;
  std::size_t slices_ = 1;
  std::size_t unit_ = 0;  // elements of a slice: of the whole, or of each chunk where counts are given
  std::size_t contribution_begin_ = 0;
};

}  // namespace roda::execute
