#include "core/execute/compose/block_composition.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "core/execute/layout.h"

namespace roda::execute {

using plan::Block;
using schedule::Collective;

namespace {

// Where each of `wanted` is in `held`.
std::vector<std::uint32_t> positions_of(const std::vector<Block>& wanted, const std::vector<Block>& held) {
  std::map<Block, std::uint32_t> at;
  for (std::size_t i = 0; i < held.size(); ++i) at.emplace(held[i], static_cast<std::uint32_t>(i));
  std::vector<std::uint32_t> positions;
  for (const Block& block : wanted) positions.push_back(at.at(block));
  return positions;
}

std::size_t sum(const std::size_t* counts, std::size_t size) {
  return std::accumulate(counts, counts + size, std::size_t{0});
}

// One copy more, or a longer last one where it goes on from there.
void add(void* tensor, std::size_t offset, std::size_t bytes, std::vector<roda_pack_item>* items) {
  if (bytes == 0) return;
  if (!items->empty()) {
    roda_pack_item& last = items->back();
    const bool goes_on = static_cast<char*>(last.tensor) + last.bytes == tensor && last.offset + last.bytes == offset;
    if (goes_on) last.bytes += bytes;
    if (goes_on) return;
  }
  items->push_back({tensor, offset, bytes});
}

// Rooms on devices are of few sizes, so that launches of many sizes are served by few allocations.
constexpr std::size_t kLeastOnDevice = std::size_t{64} << 10;

}  // namespace

BlockComposition::BlockComposition(const plan::Plan& plan, const plan::Grid& grid, int self,
                                   const std::vector<StagePool*>& pools, std::size_t piece_bytes)
    : collective_(plan.collective),
      self_(self),
      ranks_(grid.places.size()),
      piece_bytes_(piece_bytes),
      routed_(plan.stages.size()) {
  const auto visit = [&](std::size_t stage, std::int32_t rank, plan::Route&& route) {
    if (rank == self) routed_[stage].route = std::move(route);
  };
  static_cast<void>(plan::follow(plan, grid, visit));
  input_ = plan::first_blocks(collective_, self, grid.ranks());
  output_ = plan::last_blocks(collective_, self, grid.ranks());
  for (std::size_t s = 0; s < routed_.size(); ++s) {
    steps_.push_back({pools[s], static_cast<std::int32_t>(plan.stages[s].collective), plan.stages[s].algorithm});
    if (pools[s] == nullptr) continue;
    Step& step = routed_[s];
    step.before = last_ran_;
    step.turn = turns_++;
    const Blocks& held = held_after(last_ran_);
    step.in_order = held == step.route.in;
    step.positions = positions_of(step.route.in, held);
    last_ran_ = s + 1;
  }
  final_positions_ = positions_of(output_, held_after(last_ran_));
}

std::size_t BlockComposition::length(const Block& block) const {
  if (collective_ == Collective::kAllgather) return args_.recv_counts[block.from];
  if (collective_ == Collective::kReduceScatter) return args_.recv_counts[block.to];
  return args_.all_counts[static_cast<std::size_t>(block.from) * ranks_ + static_cast<std::size_t>(block.to)];
}

std::size_t BlockComposition::part_begin(const Block& block, std::size_t piece) const {
  return balanced_begin(length(block), element_, pieces_, piece);
}

std::size_t BlockComposition::part_bytes(const Block& block, std::size_t piece) const {
  return (part_begin(block, piece + 1) - part_begin(block, piece)) * element_;
}

std::size_t BlockComposition::bytes_of(const Blocks& blocks, std::size_t piece) const {
  std::size_t bytes = 0;
  for (const Block& block : blocks) bytes += part_bytes(block, piece);
  return bytes;
}

void BlockComposition::lay_out(const Blocks& blocks, std::vector<std::size_t>* begins) const {
  begins->assign(1, 0);
  for (const Block& block : blocks) begins->push_back(begins->back() + length(block));
}

Status BlockComposition::begin(const StageArgs& args, std::uint32_t lanes) {
  const bool is_alltoall = collective_ == Collective::kAlltoall;
  if (is_alltoall && args.all_counts == nullptr) return Status::invalid("a composed alltoall needs all ranks' counts");
  args_ = args;
  element_ = roda_dtype_size(args.dtype);
  const std::size_t* counts = is_alltoall ? args.all_counts : args.recv_counts;
  const std::size_t blocks = is_alltoall ? ranks_ * ranks_ : ranks_;
  longest_ = *std::max_element(counts, counts + blocks);
  pieces_ = pieces_of(sum(counts, blocks) / (is_alltoall ? ranks_ : 1) * element_, piece_bytes_);
  if (longest_ != 0) pieces_ = std::max<std::size_t>(pieces_, 1);
  lanes_.resize(lanes);
  lay_out(input_, &input_begins_);
  lay_out(output_, &output_begins_);
  return args_.queue == nullptr ? Status() : reserve_on_device();
}

// Of any piece.
std::size_t BlockComposition::most_bytes_of(const Blocks& blocks) const {
  std::size_t bytes = 0;
  for (const Block& block : blocks) {
    const std::size_t lines = (length(block) * element_ + kLine - 1) / kLine;
    bytes += (lines + pieces_ - 1) / pieces_ * kLine;
  }
  return bytes;
}

// What each lane that gets a piece may need.
Status BlockComposition::reserve_on_device() {
  std::size_t packed = 0, received[2] = {};
  for (std::size_t s = 0; s < routed_.size() && pieces_ > 0; ++s) {
    const Step& step = routed_[s];
    if (steps_[s].pool == nullptr) continue;
    packed = std::max(packed, most_bytes_of(step.route.in));
    received[step.turn % 2] = std::max(received[step.turn % 2], most_bytes_of(step.route.out));
  }
  const auto reserve = [&](Room* room, std::size_t bytes) {
    const std::size_t length = std::bit_ceil(std::max(bytes, kLeastOnDevice));
    const Status s = room->on_device.reserve(*args_.queue, DeviceMemory::Place::kDevice, length);
    if (s.ok()) register_buffer(&room->on_device);
    return s;
  };
  for (std::size_t lane = 0; lane < std::min(lanes_.size(), pieces_); ++lane) {
    RODA_RETURN_IF_ERROR(reserve(&lanes_[lane].packed, packed));
    for (const std::size_t turn : {0u, 1u}) {
      RODA_RETURN_IF_ERROR(reserve(&lanes_[lane].received[turn], received[turn]));
    }
  }
  return {};
}

char* BlockComposition::reserve(Room* room, std::size_t bytes) const {
  return args_.queue == nullptr ? room->host.reserve(bytes) : room->on_device.data();
}

// Elements of the piece for each member.
void BlockComposition::count(std::size_t piece, const Blocks& blocks, const std::vector<std::int32_t>& ends,
                             std::vector<std::size_t>* counts) const {
  counts->clear();
  std::size_t next = 0;
  for (const std::int32_t end : ends) {
    std::size_t bytes = 0;
    while (next < static_cast<std::size_t>(end)) bytes += part_bytes(blocks[next++], piece);
    counts->push_back(bytes / element_);
  }
}

// Brings the blocks from where the step before left them, or from the user's input, into the step's order.
Status BlockComposition::pack(std::size_t piece, const Step& step, LaneData* lane, char* to) {
  const Blocks& held = held_after(step.before);
  const bool from_user = step.before == 0;
  std::vector<std::size_t>& begins = lane->begins;
  begins.assign(1, 0);
  const char* from = static_cast<const char*>(args_.input);
  if (!from_user) {
    from = reserve(&lane->received[(step.turn + 1) % 2], 0);
    for (const Block& block : held) begins.push_back(begins.back() + part_bytes(block, piece));
  }
  lane->items.clear();
  std::size_t offset = 0;
  for (std::size_t i = 0; i < step.positions.size(); ++i) {
    const Block& block = step.route.in[i];
    const std::size_t position = step.positions[i];
    const std::size_t begin =
        from_user ? (input_begins_[position] + part_begin(block, piece)) * element_ : begins[position];
    const std::size_t bytes = part_bytes(block, piece);
    add(const_cast<char*>(from) + begin, offset, bytes, &lane->items);
    offset += bytes;
  }
  return queue().pack(to, lane->items.data(), lane->items.size());
}

Status BlockComposition::prepare_input(std::size_t piece, LaneData* lane, std::size_t step, const void** input) {
  const Step& routed = routed_[step];
  // One block, or all of each, lie in the user's buffer as they are sent.
  const bool is_there = routed.in_order && (routed.before != 0 || pieces_ == 1 || routed.route.in.size() == 1);
  if (!is_there) {
    char* packed = reserve(&lane->packed, std::max(bytes_of(routed.route.in, piece), kLine));
    *input = packed;
    return pack(piece, routed, lane, packed);
  }
  const std::size_t begin = routed.route.in.size() == 1 ? part_begin(routed.route.in.front(), piece) : 0;
  *input = routed.before != 0 ? reserve(&lane->received[(routed.turn + 1) % 2], 0)
                              : static_cast<const char*>(args_.input) + begin * element_;
  return {};
}

Status BlockComposition::fill(std::size_t piece, std::uint32_t lane, std::size_t step, StageArgs* args) {
  LaneData& data = lanes_[lane];
  const plan::Route& route = routed_[step].route;
  RODA_RETURN_IF_ERROR(prepare_input(piece, &data, step, &args->input));
  args->output = reserve(&data.received[routed_[step].turn % 2], std::max(bytes_of(route.out, piece), kLine));
  switch (steps_[step].collective) {
    case RODA_REDUCESCATTER:
      count(piece, route.in, route.in_ends, &data.recv_counts);
      args->count = sum(data.recv_counts.data(), data.recv_counts.size());
      break;
    case RODA_ALLTOALL: {
      count(piece, route.in, route.in_ends, &data.send_counts);
      count(piece, route.out, route.out_ends, &data.recv_counts);
      args->send_counts = data.send_counts.data();
      // No part of a block is longer than the longest one's lines divided among the pieces, rounded up.
      const std::size_t line = kLine / element_;
      const std::size_t lines = (longest_ + line - 1) / line;
      args->max_count = (lines + pieces_ - 1) / pieces_ * line * static_cast<std::size_t>(route.most_blocks);
      break;
    }
    default:
      count(piece, route.out, route.out_ends, &data.recv_counts);
      break;
  }
  args->recv_counts = data.recv_counts.data();
  return {};
}

Status BlockComposition::finish(std::size_t piece, std::uint32_t lane) {
  const Blocks& held = held_after(last_ran_);
  LaneData& data = lanes_[lane];
  data.begins.assign(1, 0);
  for (const Block& block : held) data.begins.push_back(data.begins.back() + part_bytes(block, piece));
  data.items.clear();
  for (std::size_t i = 0; i < output_.size(); ++i) {
    char* to = static_cast<char*>(args_.output) + (output_begins_[i] + part_begin(output_[i], piece)) * element_;
    add(to, data.begins[final_positions_[i]], part_bytes(output_[i], piece), &data.items);
  }
  return queue().unpack(reserve(&data.received[(turns_ + 1) % 2], 0), data.items.data(), data.items.size());
}

}  // namespace roda::execute
