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

std::size_t sum(const std::size_t* counts, int size) {
  return counts == nullptr ? 0 : std::accumulate(counts, counts + size, std::size_t{0});
}

std::size_t largest(const std::size_t* counts, int size) {
  return counts == nullptr || size == 0 ? 0 : *std::max_element(counts, counts + size);
}

void resize(SpaceMap* map, std::size_t chunks) {
  map->prefix.resize(chunks + 1);
  map->user.resize(chunks);
  map->block.resize(chunks);
  map->longest = 0;
}

}  // namespace

// Pieces of whole lines, no longer than wanted and alike in length.
void Layout::cut(std::size_t whole, std::size_t wanted) {
  const std::size_t line = kLine / element_;
  const std::size_t limit = std::max(wanted / element_ / line * line, line);
  pieces_ = std::max<std::size_t>(1, (whole + limit - 1) / limit);
  unit_ = std::max(line, ((whole + pieces_ - 1) / pieces_ + line - 1) / line * line);
}

// Where counts are given every piece has a part of every chunk.
void Layout::cut_chunks(std::size_t longest, std::size_t wanted) {
  if (in_blocks_) return cut(longest, wanted / static_cast<std::size_t>(size_));
  pieces_ = 1;
  unit_ = std::max<std::size_t>(longest, 1);
}

void Layout::plan(const StageArgs& args, int rank, int size, std::int32_t chunks, std::size_t piece_bytes,
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
  contribution_begin_ = 0;
  switch (collective_) {
    case Collective::kAdasum:
      piece_bytes = SIZE_MAX / 2;  // products are of whole vectors
      [[fallthrough]];
    case Collective::kAllreduce:
    case Collective::kBroadcast:
      input_bytes_ = output_bytes_ = count_ * element_;
      cut(count_, piece_bytes);
      break;
    case Collective::kAllgather:
      output_bytes_ = sum(recv_counts_, size) * element_;
      contribution_begin_ = sum(recv_counts_, rank) * element_;
      input_bytes_ = recv_counts_[rank] * element_;
      cut_chunks(largest(recv_counts_, size), piece_bytes);
      break;
    case Collective::kReduceScatter:
      input_bytes_ = sum(recv_counts_, size) * element_;
      output_bytes_ = recv_counts_[rank] * element_;
      cut_chunks(largest(recv_counts_, size), piece_bytes);
      break;
    case Collective::kAlltoall:
      input_bytes_ = sum(send_counts_, size) * element_;
      output_bytes_ = sum(recv_counts_, size) * element_;
      cut_chunks(in_blocks ? args.max_count : std::max(largest(send_counts_, size), largest(recv_counts_, size)),
                 piece_bytes);
      break;
    case Collective::kBarrier:
      input_bytes_ = output_bytes_ = 0;
      pieces_ = unit_ = 1;
      break;
  }
}

std::size_t Layout::block_bytes(Space space) const {
  const std::size_t chunk = align_up(unit_ * element_);
  switch (collective_) {
    case Collective::kAllreduce:
    case Collective::kAdasum:
    case Collective::kBroadcast:
      return chunk;
    case Collective::kAllgather:
      return space == Space::kOutput ? chunk * static_cast<std::size_t>(size_) : 0;
    case Collective::kReduceScatter:
      return space == Space::kInput ? chunk * static_cast<std::size_t>(size_) : chunk;
    case Collective::kAlltoall:
      return chunk * static_cast<std::size_t>(size_);
    case Collective::kBarrier:
      break;
  }
  return 0;
}

void Layout::balanced(std::size_t piece, SpaceMap* map) const {
  const auto chunks = static_cast<std::size_t>(chunks_);
  resize(map, chunks);
  const std::size_t begin = std::min(count_, piece * unit_);
  const std::size_t count = std::min(count_ - begin, unit_);
  for (std::size_t c = 0; c <= chunks; ++c) map->prefix[c] = balanced_begin(count, element_, chunks, c) * element_;
  for (std::size_t c = 0; c < chunks; ++c) {
    map->user[c] = begin * element_ + map->prefix[c];
    map->block[c] = map->prefix[c];
    map->longest = std::max(map->longest, map->prefix[c + 1] - map->prefix[c]);
  }
}

// Chunks whose lengths are given. In a block they lie back to back, or `stride` apart where ranks don't know each
// other's lengths.
void Layout::counted(const std::size_t* counts, std::size_t piece, bool stride, SpaceMap* map) const {
  const auto size = static_cast<std::size_t>(size_);
  resize(map, size);
  std::size_t start = 0;
  map->prefix[0] = 0;
  for (std::size_t c = 0; c < size; ++c) {
    const std::size_t begin = std::min(counts[c], piece * unit_);
    const std::size_t bytes = std::min(counts[c] - begin, unit_) * element_;
    map->user[c] = (start + begin) * element_;
    map->block[c] = stride ? c * align_up(unit_ * element_) : map->prefix[c];
    map->prefix[c + 1] = map->prefix[c] + bytes;
    map->longest = std::max(map->longest, bytes);
    start += counts[c];
  }
}

void Layout::map(std::size_t piece, SpaceMap* input, SpaceMap* output) const {
  switch (collective_) {
    case Collective::kAllreduce:
    case Collective::kAdasum:
    case Collective::kBroadcast:
      balanced(piece, output);
      balanced(piece, input);
      break;
    case Collective::kAllgather:
      counted(recv_counts_, piece, false, output);
      resize(input, 0);
      break;
    case Collective::kReduceScatter: {
      counted(recv_counts_, piece, false, input);
      resize(output, 1);
      const auto own = static_cast<std::size_t>(rank_);
      output->prefix[1] = input->prefix[own + 1] - input->prefix[own];
      output->prefix[0] = output->block[0] = 0;
      output->user[0] = std::min(recv_counts_[own], piece * unit_) * element_;
      output->longest = output->prefix[1];
      break;
    }
    case Collective::kAlltoall:
      counted(send_counts_, piece, true, input);
      counted(recv_counts_, piece, true, output);
      break;
    case Collective::kBarrier:
      resize(input, 0);
      resize(output, 0);
      break;
  }
}

}  // namespace roda::execute
