#include "core/execute/layout.h"

#include <algorithm>
#include <numeric>

#include "algorithms/schedule/format.h"

namespace roda::execute {

using schedule::Collective;
using schedule::Space;

std::size_t balanced_begin(std::size_t count, std::size_t element, std::size_t chunks, std::size_t chunk,
                           std::size_t grain) {
  const std::size_t unit = grain / element;
  const std::size_t units = (count + unit - 1) / unit;
  return std::min(count, units / chunks * chunk * unit + units % chunks * chunk / chunks * unit);
}

std::size_t grain_of(const schedule::Program& program) {
  return program.is_formatted ? schedule::kFormatGrain * sizeof(float) : kLine;
}

namespace {

std::size_t units_of(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit; }

// Elements of a block of the rank.
std::size_t length(const schedule::Outline& of, const StageArgs& args, const schedule::Block& block) {
  if (block.to < 0) return args.recv_counts[block.from];
  if (block.from < 0) return args.recv_counts[block.to];
  if (block.from == of.rank) return args.send_counts[block.to];
  if (block.to == of.rank) return args.recv_counts[block.from];
  return args.all_counts[index(block.from) * index(of.size) + index(block.to)];
}

void resize(SpaceMap* map, std::size_t chunks) {
  map->prefix.resize(chunks + 1);
  map->user.resize(chunks);
  map->block.resize(chunks);
}

}  // namespace

// Sets what both kinds of plan need: the vector, or the blocks of Input and Output.
void Layout::begin(const StageArgs& args, int rank, int size, std::int32_t chunks) {
  collective_ = static_cast<Collective>(args.collective);
  is_vector_ = schedule::is_cut(collective_);
  element_ = roda_dtype_size(args.dtype);
  count_ = args.count;
  size_ = size;
  chunks_ = chunks;
  if (is_vector_) return;
  const roda_collective_entry& data = schedule::entry_of(collective_);
  const std::size_t* const sent = schedule::is_between_pairs(collective_) ? args.send_counts : args.recv_counts;
  const auto fill = [&](int extent, const std::size_t* counts, std::vector<std::size_t>* blocks) {
    blocks->clear();
    if (extent == RODA_OWN_PART) blocks->push_back(counts[rank]);
    if (extent == RODA_ALL_PARTS) blocks->assign(counts, counts + size);
  };
  fill(data.input, sent, &blocks_[0]);
  fill(data.output, args.recv_counts, &blocks_[1]);
}

// Slices of whole grains, no longer than wanted and alike in length.
void Layout::cut(std::size_t whole, std::size_t wanted) {
  const std::size_t line = grain_ / element_;
  if (wanted == 0) wanted = (whole + line) * element_;
  const std::size_t limit = std::max(wanted / element_ / line * line, line);
  slices_ = std::max<std::size_t>(1, (whole + limit - 1) / limit);
  unit_ = std::max(line, ((whole + slices_ - 1) / slices_ + line - 1) / line * line);
}

void Layout::plan(const StageArgs& args, int rank, int size, std::int32_t chunks, std::size_t slice_bytes,
                  bool in_blocks, std::size_t grain) {
  begin(args, rank, size, chunks);
  grain_ = grain;
  in_blocks_ = in_blocks;
  contribution_begin_ = 0;
  if (is_vector_) return cut(count_, slice_bytes);
  std::size_t longest = 1;
  for (const auto& blocks : {&blocks_[0], &blocks_[1]}) {
    for (const std::size_t block : *blocks) longest = std::max(longest, block);
  }
  if (in_blocks && schedule::is_between_pairs(collective_)) longest = args.max_count;
  slices_ = 1;
  unit_ = longest;
  // Every slice has a part of every block.
  if (in_blocks && !blocks_[0].empty()) cut(longest, slice_bytes / index(size_));
  if (schedule::entry_of(collective_).input != RODA_OWN_PART) return;
  contribution_begin_ = std::accumulate(args.recv_counts, args.recv_counts + rank, std::size_t{0}) * element_;
}

Status Layout::plan(const StageArgs& args, const schedule::Program& composed, std::size_t slice_bytes) {
  const bool is_alltoall = schedule::is_between_pairs(composed.collective);
  const bool is_composed = composed.stages > 1;
  if (is_alltoall && is_composed && args.all_counts == nullptr) {
    return Status::invalid("a composed alltoall needs all ranks' counts");
  }
  composed_ = &composed;
  begin(args, composed.rank, composed.size, composed.chunks);
  unit_ = 0;
  grain_ = grain_of(composed);
  slice_bytes_ = composed.collective == Collective::kAdasum ? SIZE_MAX / 2 : slice_bytes;
  std::size_t count = count_;
  if (!is_vector_) {
    blocks_[2].clear();
    for (const schedule::Block& block : composed.scratch) blocks_[2].push_back(length(composed, args, block));
    slices_ = 1;
    if (!is_composed) return {};
    const std::size_t ranks = index(composed.size);
    const std::size_t* const counts = is_alltoall ? args.all_counts : args.recv_counts;
    const std::size_t blocks = is_alltoall ? ranks * ranks : ranks;
    longest_ = *std::max_element(counts, counts + blocks);
    count = std::accumulate(counts, counts + blocks, std::size_t{0}) / (is_alltoall ? ranks : 1);
  }
  slices_ = (count * element_ + slice_bytes_ - 1) / slice_bytes_;
  if (!is_vector_ && longest_ != 0) slices_ = std::max<std::size_t>(slices_, 1);
  return {};
}

Layout::Extent Layout::part(std::size_t whole, std::size_t slice) const {
  if (unit_ != 0) {
    const std::size_t begin = std::min(whole, slice * unit_);
    return {begin, std::min(whole - begin, unit_)};
  }
  const std::size_t begin = balanced_begin(whole, element_, slices_, slice, grain_);
  return {begin, balanced_begin(whole, element_, slices_, slice + 1, grain_) - begin};
}

void Layout::map_chunks(std::size_t slice, SpaceMap* map) const {
  const auto chunks = index(chunks_);
  resize(map, chunks);
  const Extent cut = part(count_, slice);
  for (std::size_t c = 0; c <= chunks; ++c) {
    map->prefix[c] = balanced_begin(cut.count, element_, chunks, c, grain_) * element_;
  }
  for (std::size_t c = 0; c < chunks; ++c) {
    map->user[c] = cut.begin * element_ + map->prefix[c];
    map->block[c] = map->prefix[c];
  }
}

// In a staging block they lie back to back, or equally far apart where ranks don't know each other's lengths.
void Layout::map_blocks(const std::vector<std::size_t>& blocks, std::size_t slice, SpaceMap* map) const {
  const std::size_t stride = schedule::is_between_pairs(collective_) ? align_up(unit_ * element_) : 0;
  resize(map, blocks.size());
  std::size_t start = 0;
  map->prefix[0] = 0;
  for (std::size_t c = 0; c < blocks.size(); ++c) {
    const Extent cut = part(blocks[c], slice);
    map->user[c] = (start + cut.begin) * element_;
    map->block[c] = stride != 0 ? c * stride : map->prefix[c];
    map->prefix[c + 1] = map->prefix[c] + cut.count * element_;
    start += blocks[c];
  }
}

void Layout::map(std::size_t slice, SpaceMap* input, SpaceMap* output) const {
  if (is_vector_) {
    map_chunks(slice, output);
    *input = *output;
  } else {
    map_blocks(blocks_[0], slice, input);
    map_blocks(blocks_[1], slice, output);
  }
}

std::size_t Layout::block_bytes(Space space) const {
  const std::size_t chunk = align_up(unit_ * element_);
  if (is_vector_) return chunk;
  return chunk * index(chunks_of(collective_, space, 1, size_));
}

void Layout::map_scratch(std::size_t slice, const SpaceMap& output, SpaceMap* scratch) const {
  const std::size_t chunks = composed_->scratch.size();
  resize(scratch, chunks);
  scratch->prefix[0] = 0;
  for (std::size_t c = 0; c < chunks; ++c) {
    const std::size_t bytes =
        is_vector_ ? output.bytes(composed_->scratch[c].to, 1) : part(blocks_[2][c], slice).count * element_;
    scratch->prefix[c + 1] = scratch->prefix[c] + bytes;
  }
  for (const schedule::Region& region : composed_->regions) {
    const std::size_t begin = scratch->prefix[index(region.first)];
    for (std::size_t c = index(region.first); c < index(region.first + region.count); ++c) {
      scratch->user[c] = scratch->prefix[c] - begin;
    }
  }
}

// Whole grains, divided among slices and chunks, rounded up.
std::size_t Layout::most_bytes(Space space, std::int32_t first, std::int32_t count) const {
  if (is_vector_) {
    const std::size_t units = units_of(std::min(slice_bytes_, count_ * element_), grain_) + 1;
    return ((units * index(count) + index(chunks_) - 1) / index(chunks_) + 1) * grain_;
  }
  const std::vector<std::size_t>& all = blocks(space);
  std::size_t units = 0;
  for (std::size_t c = index(first); c < index(first + count); ++c) {
    units += (units_of(all[c] * element_, grain_) + slices_ - 1) / slices_;
  }
  return units * grain_;
}

std::size_t Layout::longest_part() const {
  return (units_of(longest_ * element_, grain_) + slices_ - 1) / slices_ * (grain_ / element_);
}

}  // namespace roda::execute
