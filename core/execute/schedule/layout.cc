#include "core/execute/schedule/layout.h"

#include <algorithm>
#include <numeric>

namespace roda::execute {

using schedule::Collective;
using schedule::Space;

std::size_t balanced_begin(std::size_t count, std::size_t element, std::size_t chunks, std::size_t chunk) {
  const std::size_t unit = kLine / element;
  const std::size_t units = (count + unit - 1) / unit;
  return std::min(count, units / chunks * chunk * unit + units % chunks * chunk / chunks * unit);
}

namespace {

std::size_t largest(const std::size_t* counts, int size) {
  return counts == nullptr || size == 0 ? 0 : *std::max_element(counts, counts + size);
}

void resize(SpaceMap* map, std::size_t chunks) {
  map->prefix.resize(chunks + 1);
  map->user.resize(chunks);
  map->block.resize(chunks);
}

}  // namespace

// Slices of whole lines, no longer than wanted and alike in length.
void Layout::cut(std::size_t whole, std::size_t wanted) {
  const std::size_t line = kLine / element_;
  if (wanted == 0) wanted = (whole + line) * element_;
  const std::size_t limit = std::max(wanted / element_ / line * line, line);
  slices_ = std::max<std::size_t>(1, (whole + limit - 1) / limit);
  unit_ = std::max(line, ((whole + slices_ - 1) / slices_ + line - 1) / line * line);
}

// Where counts are given every slice has a part of every chunk.
void Layout::cut_chunks(std::size_t longest, std::size_t wanted) {
  if (in_blocks_) return cut(longest, wanted / index(size_));
  slices_ = 1;
  unit_ = std::max<std::size_t>(longest, 1);
}

void Layout::plan(const StageArgs& args, int rank, int size, std::int32_t chunks, std::size_t slice_bytes,
                  bool in_blocks) {
  collective_ = static_cast<Collective>(args.collective);
  element_ = roda_dtype_size(args.dtype);
  count_ = args.count;
  send_counts_ = args.send_counts;
  recv_counts_ = args.recv_counts;
  rank_ = rank;
  size_ = size;
  chunks_ = chunks;
  in_blocks_ = in_blocks;
  const roda_collective_entry& data = schedule::entry_of(collective_);
  if (data.input == RODA_NOTHING) {
    slices_ = unit_ = 1;
  } else if (data.input == RODA_WHOLE) {
    cut(count_, slice_bytes);
  } else if (schedule::is_between_pairs(collective_)) {
    const std::size_t longest = std::max(largest(send_counts_, size), largest(recv_counts_, size));
    cut_chunks(in_blocks ? args.max_count : longest, slice_bytes);
  } else {
    cut_chunks(largest(recv_counts_, size), slice_bytes);
  }
  contribution_begin_ = 0;
  if (data.input == RODA_OWN_PART)
    contribution_begin_ = std::accumulate(recv_counts_, recv_counts_ + rank, std::size_t{0}) * element_;
}

std::size_t Layout::block_bytes(Space space) const {
  const std::size_t chunk = align_up(unit_ * element_);
  if (schedule::is_cut(collective_)) return chunk;
  return chunk * index(chunks_of(collective_, space, 1, size_));
}

void Layout::balanced(std::size_t slice, SpaceMap* map) const {
  const auto chunks = index(chunks_);
  resize(map, chunks);
  const std::size_t begin = std::min(count_, slice * unit_);
  const std::size_t count = std::min(count_ - begin, unit_);
  for (std::size_t c = 0; c <= chunks; ++c) map->prefix[c] = balanced_begin(count, element_, chunks, c) * element_;
  for (std::size_t c = 0; c < chunks; ++c) {
    map->user[c] = begin * element_ + map->prefix[c];
    map->block[c] = map->prefix[c];
  }
}

// Chunks whose lengths are given. In a block they lie back to back, or `stride` apart where ranks don't know each
// other's lengths.
void Layout::counted(const std::size_t* counts, std::size_t slice, bool stride, SpaceMap* map) const {
  const auto size = index(size_);
  resize(map, size);
  std::size_t start = 0;
  map->prefix[0] = 0;
  for (std::size_t c = 0; c < size; ++c) {
    const std::size_t begin = std::min(counts[c], slice * unit_);
    const std::size_t bytes = std::min(counts[c] - begin, unit_) * element_;
    map->user[c] = (start + begin) * element_;
    map->block[c] = stride ? c * align_up(unit_ * element_) : map->prefix[c];
    map->prefix[c + 1] = map->prefix[c] + bytes;
    start += counts[c];
  }
}

void Layout::map(std::size_t slice, SpaceMap* input, SpaceMap* output) const {
  const roda_collective_entry& data = schedule::entry_of(collective_);
  if (data.input == RODA_NOTHING) {
    resize(input, 0);
    resize(output, 0);
  } else if (data.input == RODA_WHOLE) {
    balanced(slice, output);
    balanced(slice, input);
  } else if (schedule::is_between_pairs(collective_)) {
    counted(send_counts_, slice, true, input);
    counted(recv_counts_, slice, true, output);
  } else if (data.input == RODA_OWN_PART) {
    counted(recv_counts_, slice, false, output);
    resize(input, 0);
  } else {
    counted(recv_counts_, slice, false, input);
    resize(output, 1);
    const auto own = index(rank_);
    output->prefix[1] = input->prefix[own + 1] - input->prefix[own];
    output->prefix[0] = output->block[0] = 0;
    output->user[0] = std::min(recv_counts_[own], slice * unit_) * element_;
  }
}

}  // namespace roda::execute
