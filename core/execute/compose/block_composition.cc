#include "core/execute/compose/block_composition.h"

#include <algorithm>
#include <cstring>
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
  return {};
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
void BlockComposition::pack(std::size_t piece, const Step& step, LaneData* lane, char* to) {
  const Blocks& held = held_after(step.before);
  const bool from_user = step.before == 0;
  std::vector<std::size_t>& begins = lane->begins;
  begins.assign(1, 0);
  const char* from = static_cast<const char*>(args_.input);
  if (!from_user) {
    from = lane->received[(step.turn + 1) % 2].reserve(0);
    for (const Block& block : held) begins.push_back(begins.back() + part_bytes(block, piece));
  }
  for (std::size_t i = 0; i < step.positions.size(); ++i) {
    const Block& block = step.route.in[i];
    const std::size_t position = step.positions[i];
    const std::size_t begin =
        from_user ? (input_begins_[position] + part_begin(block, piece)) * element_ : begins[position];
    const std::size_t bytes = part_bytes(block, piece);
    if (bytes != 0) std::memcpy(to, from + begin, bytes);
    to += bytes;
  }
}

const char* BlockComposition::prepare_input(std::size_t piece, LaneData* lane, std::size_t step) {
  const Step& routed = routed_[step];
  // One block, or all of each, lie in the user's buffer as they are sent.
  const bool is_there = routed.in_order && (routed.before != 0 || pieces_ == 1 || routed.route.in.size() == 1);
  if (!is_there) {
    char* packed = lane->packed.reserve(std::max(bytes_of(routed.route.in, piece), kLine));
    pack(piece, routed, lane, packed);
    return packed;
  }
  if (routed.before != 0) return lane->received[(routed.turn + 1) % 2].reserve(0);
  const std::size_t begin = routed.route.in.size() == 1 ? part_begin(routed.route.in.front(), piece) : 0;
  return static_cast<const char*>(args_.input) + begin * element_;
}

void BlockComposition::fill(std::size_t piece, std::uint32_t lane, std::size_t step, StageArgs* args) {
  LaneData& data = lanes_[lane];
  const plan::Route& route = routed_[step].route;
  args->input = prepare_input(piece, &data, step);
  args->output = data.received[routed_[step].turn % 2].reserve(std::max(bytes_of(route.out, piece), kLine));
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
}

void BlockComposition::finish(std::size_t piece, std::uint32_t lane) {
  const Blocks& held = held_after(last_ran_);
  std::vector<std::size_t>& begins = lanes_[lane].begins;
  begins.assign(1, 0);
  for (const Block& block : held) begins.push_back(begins.back() + part_bytes(block, piece));
  const char* from = lanes_[lane].received[(turns_ + 1) % 2].reserve(0);
  for (std::size_t i = 0; i < output_.size(); ++i) {
    const std::size_t bytes = part_bytes(output_[i], piece);
    if (bytes == 0) continue;
    char* to = static_cast<char*>(args_.output) + (output_begins_[i] + part_begin(output_[i], piece)) * element_;
    std::memcpy(to, from + begins[final_positions_[i]], bytes);
  }
}

}  // namespace roda::execute
