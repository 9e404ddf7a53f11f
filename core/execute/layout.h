// How the data of one run of a stage are cut into slices, and where chunks lie in each: pure arithmetic over counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "algorithms/schedule/places.h"
#include "core/execute/memory.h"
#include "core/execute/stage.h"

namespace roda::execute {

// First element of chunk `chunk` when `count` elements are cut into `chunks` balanced ones that begin on multiples of
// `grain` bytes. chunk == chunks gives count.
std::size_t balanced_begin(std::size_t count, std::size_t element, std::size_t chunks, std::size_t chunk,
                           std::size_t grain = kLine);

// What slices, chunks and the tensors of a bucket begin on multiples of, in bytes: lines, or where messages have a wire
// format, its blocks, none of which then holds parts of two tensors, however they are fused and cut.
std::size_t grain_of(const schedule::Program& program);

using schedule::SpaceMap;

// A vector is cut as a whole, and each slice into chunks. Where chunks are blocks of the ranks, slice k holds the k-th
// part of every block.
class Layout {
 public:
  // For a program of so many chunks. `in_blocks`: `slice_bytes` are a staging block's, for all chunks together;
  // otherwise only allreduce and broadcast are cut. 0: nothing is. There is one slice at least. Slices and chunks of a
  // vector begin on multiples of `grain` bytes.
  void plan(const StageArgs& args, int rank, int size, std::int32_t chunks, std::size_t slice_bytes, bool in_blocks,
            std::size_t grain = kLine);
  // For a composition, which outlives this object. A plan of one stage and an Adasum are one slice. There is none
  // where there are no data. `slice_bytes`: equal on all ranks. RODA_ERR_INVALID: counts are missing.
  Status plan(const StageArgs& args, const schedule::Program& composed, std::size_t slice_bytes);

  std::size_t slices() const { return slices_; }
  std::size_t element() const { return element_; }
  // Fills the maps for one slice; no allocation once they have grown.
  void map(std::size_t slice, SpaceMap* input, SpaceMap* output) const;

  // --- of a program ---
  // Bytes of Input and Output in a staging block, the same for every slice and rank.
  std::size_t block_bytes(schedule::Space space) const;
  // Where this rank's contribution begins in Output (allgather: its own chunk), and so how far the user's input is from
  // the user's output offsets.
  std::size_t contribution_begin() const { return contribution_begin_; }

  // --- of a composition ---
  // `output`: of the slice. In the scratch map `user` is where a chunk lies in its region.
  void map_scratch(std::size_t slice, const SpaceMap& output, SpaceMap* scratch) const;
  // Whether so many chunks of the user's buffers lie side by side in every slice.
  bool is_contiguous(std::int32_t count) const { return is_vector_ || slices_ == 1 || count <= 1; }
  // No slice has more bytes of these chunks.
  std::size_t most_bytes(schedule::Space space, std::int32_t first, std::int32_t count) const;
  // Elements that no part of a block exceeds in any slice, on any rank.
  std::size_t longest_part() const;

 private:
  struct Extent {
    std::size_t begin = 0;  // elements
    std::size_t count = 0;
  };
  void begin(const StageArgs& args, int rank, int size, std::int32_t chunks);
  void cut(std::size_t whole, std::size_t wanted);
  const std::vector<std::size_t>& blocks(schedule::Space space) const {
    return blocks_[static_cast<std::size_t>(space)];
  }
  // The part of the vector, or of a block, that lies in a slice.
  Extent part(std::size_t whole, std::size_t slice) const;
  void map_chunks(std::size_t slice, SpaceMap* map) const;
  void map_blocks(const std::vector<std::size_t>& blocks, std::size_t slice, SpaceMap* map) const;

  schedule::Collective collective_ = schedule::Collective::kAllreduce;
  const schedule::Program* composed_ = nullptr;
  bool is_vector_ = true;
  std::size_t element_ = 1;
  std::size_t count_ = 0;  // of the vector
  int size_ = 1;
  std::int32_t chunks_ = 1;
  bool in_blocks_ = false;
  std::size_t grain_ = kLine;
  std::size_t slices_ = 1;
  std::size_t unit_ = 0;  // elements of a slice: of the vector, or of each block; 0: as even parts as there are slices
  std::size_t slice_bytes_ = 0;
  std::size_t longest_ = 0;  // elements of the longest block of all
  std::size_t contribution_begin_ = 0;
  std::vector<std::size_t> blocks_[3];  // elements of the blocks in Input, Output and Scratch
};

}  // namespace roda::execute
