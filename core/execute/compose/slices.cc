#include "core/execute/compose/slices.h"

#include <algorithm>
#include <numeric>

#include "core/execute/schedule/layout.h"

namespace roda::execute {

using schedule::Block;
using schedule::Collective;
using schedule::Space;

SliceMap::SliceMap(const schedule::Schedule& schedule, std::size_t slice_bytes)
    : schedule_(schedule),
      is_cut_(schedule::is_cut(schedule.collective)),
      slice_bytes_(schedule.collective == Collective::kAdasum ? SIZE_MAX / 2 : slice_bytes),
      input_(input_blocks(schedule)),
      output_(output_blocks(schedule)) {}

const std::vector<Block>& SliceMap::blocks(Space space) const {
  if (space == Space::kScratch) return schedule_.scratch;
  return space == Space::kInput ? input_ : output_;
}

Status SliceMap::begin(const StageArgs& args) {
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
  const auto lay_out = [this](const std::vector<Block>& blocks, std::vector<std::size_t>* begins) {
    begins->assign(1, 0);
    for (const Block& block : blocks) begins->push_back(begins->back() + whole_length(block));
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

std::size_t SliceMap::whole_length(const Block& block) const {
  if (block.to < 0) return args_.recv_counts[block.from];
  if (block.from < 0) return args_.recv_counts[block.to];
  if (block.from == schedule_.rank) return args_.send_counts[block.to];
  if (block.to == schedule_.rank) return args_.recv_counts[block.from];
  return args_.all_counts[index(block.from) * index(schedule_.size) + index(block.to)];
}

Extent SliceMap::slice(std::size_t number) const {
  const std::size_t begin = balanced_begin(args_.count, element_, slices_, number);
  return {begin, balanced_begin(args_.count, element_, slices_, number + 1) - begin};
}

std::size_t SliceMap::length(const Block& block, std::size_t number) const {
  if (is_cut_) {
    const std::size_t count = slice(number).count;
    const auto chunks = index(schedule_.chunks), chunk = index(block.to);
    return balanced_begin(count, element_, chunks, chunk + 1) - balanced_begin(count, element_, chunks, chunk);
  }
  const std::size_t whole = whole_length(block);
  return balanced_begin(whole, element_, slices_, number + 1) - balanced_begin(whole, element_, slices_, number);
}

Extent SliceMap::in_user(Space space, std::int32_t chunk, std::size_t number) const {
  const bool is_input = space == Space::kInput;
  if (is_cut_) {
    const Extent cut = slice(number);
    const std::size_t begin = balanced_begin(cut.count, element_, index(schedule_.chunks), index(chunk));
    const std::size_t end = balanced_begin(cut.count, element_, index(schedule_.chunks), index(chunk) + 1);
    return {cut.begin + begin, end - begin};
  }
  const Block& block = (is_input ? input_ : output_)[index(chunk)];
  const std::size_t begin = (is_input ? input_begins_ : output_begins_)[index(chunk)];
  return {begin + balanced_begin(whole_length(block), element_, slices_, number), length(block, number)};
}

// Whole lines, divided among slices and chunks, rounded up.
std::size_t SliceMap::most_bytes(const Block* blocks, std::size_t count) const {
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

std::size_t SliceMap::longest_part() const {
  const std::size_t line = kLine / element_;
  const std::size_t lines = (longest_ + line - 1) / line;
  return (lines + slices_ - 1) / slices_ * line;
}

StartOrder::StartOrder(std::size_t in_flight, std::vector<std::vector<std::size_t>> rivals)
    : in_flight_(in_flight), rivals_(std::move(rivals)), next_(rivals_.size()) {}

void StartOrder::reset(std::size_t slices) {
  slices_ = slices;
  std::fill(next_.begin(), next_.end(), 0);
}

// A slice enters the pipeline one tick after the one before it, and not before the last step of the one that had its
// place in flight.
std::pair<std::size_t, std::size_t> StartOrder::place(std::size_t step, std::size_t slice) const {
  const std::size_t round = std::max(in_flight_, next_.size());
  return {slice / in_flight_ * round + slice % in_flight_ + step, slice};
}

bool StartOrder::may_begin(std::size_t step, std::size_t slice) const {
  if (next_[step] != slice) return false;
  const auto mine = place(step, slice);
  return std::none_of(rivals_[step].begin(), rivals_[step].end(),
                      [&](std::size_t rival) { return next_[rival] < slices_ && place(rival, next_[rival]) < mine; });
}

}  // namespace roda::execute
