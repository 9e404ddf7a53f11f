// The slices of a composed schedule's data: how they are cut, and in which order they begin their steps.
//
// Pure arithmetic; not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "algorithms/schedule/schedule.h"
#include "core/execute/schedule/layout.h"
#include "core/execute/stage.h"
#include "plugins/base/invariant.h"

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
  SliceMap(const schedule::Schedule& schedule, std::size_t slice_bytes)
      : schedule_(schedule),
        is_cut_(schedule::is_cut(schedule.collective)),
        slice_bytes_(schedule.collective == schedule::Collective::kAdasum ? SIZE_MAX / 2 : slice_bytes),
        input_(input_blocks(schedule)),
        output_(output_blocks(schedule)) {}

  // Takes a run on; its counts live until it ends. RODA_ERR_INVALID: counts are missing.
  Status begin(const StageArgs& args) {
    args_ = args;
    element_ = roda_dtype_size(args.dtype);
    if (is_cut_) {
      slices_ = (args.count * element_ + slice_bytes_ - 1) / slice_bytes_;
      return {};
    }
    const bool is_alltoall = schedule::is_between_pairs(schedule_.collective);
    const bool is_composed = schedule_.stages > 1;
    if (is_alltoall && is_composed && args.all_counts == nullptr) {
      return Status::invalid("a composed alltoall needs all ranks' counts");
    }
    const auto lay_out = [this](const std::vector<schedule::Block>& blocks, std::vector<std::size_t>* begins) {
      begins->assign(1, 0);
      for (const schedule::Block& block : blocks) begins->push_back(begins->back() + whole_length(block));
    };
    lay_out(input_, &input_begins_);
    lay_out(output_, &output_begins_);
    slices_ = 1;
    if (!is_composed) return {};
    const std::size_t ranks = index(schedule_.size);
    const std::size_t* counts = is_alltoall ? args.all_counts : args.recv_counts;
    const std::size_t blocks = is_alltoall ? ranks * ranks : ranks;
    longest_ = *std::max_element(counts, counts + blocks);
    const std::size_t each = std::accumulate(counts, counts + blocks, std::size_t{0}) / (is_alltoall ? ranks : 1);
    slices_ = (each * element_ + slice_bytes_ - 1) / slice_bytes_;
    if (longest_ != 0) slices_ = std::max<std::size_t>(slices_, 1);
    return {};
  }

  std::size_t slices() const { return slices_; }
  std::size_t element() const { return element_; }
  // Elements of the chunk in a slice.
  std::size_t length(const schedule::Block& block, std::size_t number) const {
    if (is_cut_) {
      const std::size_t count = slice(number).count;
      const auto chunks = index(schedule_.chunks), chunk = index(block.to);
      return balanced_begin(count, element_, chunks, chunk + 1) - balanced_begin(count, element_, chunks, chunk);
    }
    const std::size_t whole = whole_length(block);
    return balanced_begin(whole, element_, slices_, number + 1) - balanced_begin(whole, element_, slices_, number);
  }

  // Of Input or Output: where the chunk's part lies in the user's buffer.
  Extent in_user(schedule::Space space, std::int32_t chunk, std::size_t number) const {
    const bool is_input = space == schedule::Space::kInput;
    if (is_cut_) {
      const Extent cut = slice(number);
      const std::size_t begin = balanced_begin(cut.count, element_, index(schedule_.chunks), index(chunk));
      const std::size_t end = balanced_begin(cut.count, element_, index(schedule_.chunks), index(chunk) + 1);
      return {cut.begin + begin, end - begin};
    }
    const schedule::Block& block = (is_input ? input_ : output_)[index(chunk)];
    const std::size_t begin = (is_input ? input_begins_ : output_begins_)[index(chunk)];
    return {begin + balanced_begin(whole_length(block), element_, slices_, number), length(block, number)};
  }

  // Whether consecutive chunks of the user's buffers lie side by side in every slice.
  bool is_contiguous(const schedule::Range& range) const { return is_cut_ || slices_ == 1 || range.count <= 1; }
  const std::vector<schedule::Block>& blocks(schedule::Space space) const {
    if (space == schedule::Space::kScratch) return schedule_.scratch;
    return space == schedule::Space::kInput ? input_ : output_;
  }

  // No slice has more bytes of these chunks: whole lines, divided among slices and chunks, rounded up.
  std::size_t most_bytes(const schedule::Block* blocks, std::size_t count) const {
    if (is_cut_) {
      const std::size_t lines = (std::min(slice_bytes_, args_.count * element_) + kLine - 1) / kLine + 1;
      return ((lines * count + index(schedule_.chunks) - 1) / index(schedule_.chunks) + 1) * kLine;
    }
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t lines = (whole_length(blocks[i]) * element_ + kLine - 1) / kLine;
      bytes += (lines + slices_ - 1) / slices_ * kLine;
    }
    return bytes;
  }

  // Elements that no part of a block exceeds in any slice.
  std::size_t longest_part() const {
    const std::size_t line = kLine / element_;
    const std::size_t lines = (longest_ + line - 1) / line;
    return (lines + slices_ - 1) / slices_ * line;
  }

 private:
  std::size_t whole_length(const schedule::Block& block) const {
    if (block.to < 0) return args_.recv_counts[block.from];
    if (block.from < 0) return args_.recv_counts[block.to];
    if (block.from == schedule_.rank) return args_.send_counts[block.to];
    if (block.to == schedule_.rank) return args_.recv_counts[block.from];
    return args_.all_counts[index(block.from) * index(schedule_.size) + index(block.to)];
  }

  Extent slice(std::size_t number) const {
    const std::size_t begin = balanced_begin(args_.count, element_, slices_, number);
    return {begin, balanced_begin(args_.count, element_, slices_, number + 1) - begin};
  }

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
  StartOrder(std::size_t in_flight, std::vector<std::vector<std::size_t>> rivals)
      : in_flight_(in_flight), rivals_(std::move(rivals)), next_(rivals_.size()) {}

  void reset(std::size_t slices) {
    slices_ = slices;
    std::ranges::fill(next_, 0);
  }

  // Whether the step of that slice is the next to begin, among its rivals too.
  bool may_begin(std::size_t step, std::size_t slice) const {
    if (next_[step] != slice) return false;
    const auto mine = place(step, slice);
    return std::ranges::none_of(
        rivals_[step], [&](std::size_t rival) { return next_[rival] < slices_ && place(rival, next_[rival]) < mine; });
  }

  void begun(std::size_t step) {
    RODA_INVARIANT(next_[step] < slices_, "a step begins once for each slice");
    ++next_[step];
  }

 private:
  // A slice enters the pipeline one tick after the one before it, and not before the last step of the one that had its
  // place in flight.
  std::pair<std::size_t, std::size_t> place(std::size_t step, std::size_t slice) const {
    const std::size_t round = std::max(in_flight_, next_.size());
    return {slice / in_flight_ * round + slice % in_flight_ + step, slice};
  }

  std::size_t in_flight_;
  std::vector<std::vector<std::size_t>> rivals_;
  std::vector<std::size_t> next_;  // [step] the slice whose turn it is
  std::size_t slices_ = 0;
};

}  // namespace roda::execute
