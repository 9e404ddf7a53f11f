#include "core/execute/compose/share_composition.h"

#include <algorithm>

#include "core/execute/layout.h"

namespace roda::execute {

using schedule::Collective;

ShareComposition::ShareComposition(const plan::Plan& plan, const plan::Grid& grid, int self,
                                   const std::vector<StagePool*>& pools, std::size_t piece_bytes)
    : plan_(plan), all_parts_(plan, grid), piece_bytes_(piece_bytes) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    parts_.push_back(all_parts_.of(s, self));
    steps_.push_back({pools[s], static_cast<std::int32_t>(plan.stages[s].collective), plan.stages[s].algorithm});
  }
}

Status ShareComposition::begin(const StageArgs& args, std::uint32_t lanes) {
  args_ = args;
  element_ = roda_dtype_size(args.dtype);
  pieces_ = pieces_of(args.count * element_, piece_bytes_);
  lanes_.resize(lanes);
  return args.queue == nullptr ? Status() : reserve_shards();
}

// On a device: every lane's at once, as long as they may get.
Status ShareComposition::reserve_shards() {
  const auto is_scatter = [](const plan::Stage& s) { return s.collective == Collective::kReduceScatter; };
  const auto depth = static_cast<std::size_t>(std::count_if(plan_.stages.begin(), plan_.stages.end(), is_scatter));
  for (LaneData& lane : lanes_) {
    lane.shards_on_device.resize(depth);
    for (DeviceMemory& shard : lane.shards_on_device) {
      RODA_RETURN_IF_ERROR(shard.reserve(*args_.queue, DeviceMemory::Place::kDevice, piece_bytes_ + kLine));
      register_buffer(&shard);
    }
  }
  return {};
}

// First element, within the piece, of share number `share` of the step's group.
std::size_t ShareComposition::begin_of(std::size_t step, std::size_t share) const {
  const plan::Part& part = parts_[step];
  const auto shares = static_cast<std::size_t>(part.shares);
  return balanced_begin(piece_count_, element_, static_cast<std::size_t>(part.parts) * shares,
                        static_cast<std::size_t>(part.part) * shares + share);
}

void ShareComposition::count_shares(std::size_t step, LaneData* lane) const {
  const plan::Part& part = parts_[step];
  lane->counts.assign(part.members.size(), 0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(part.shares); ++i) {
    lane->counts[i] = begin_of(step, i + 1) - begin_of(step, i);
  }
}

// Where the rank's share goes after the reduce-scatter `step`.
ShareComposition::Place ShareComposition::shard(std::size_t step, LaneData* lane) {
  const std::size_t depth = lane->places.size();
  if (args_.queue != nullptr) {
    char* data = lane->shards_on_device[depth - 1].data();
    return {data, data};
  }
  if (lane->shards.size() < depth) lane->shards.resize(depth);
  const auto index = static_cast<std::size_t>(parts_[step].index);
  const bool owns = parts_[step].index < parts_[step].shares;
  const std::size_t count = owns ? begin_of(step, index + 1) - begin_of(step, index) : 0;
  char* data = lane->shards[depth - 1].reserve(std::max(count * element_, kLine));
  return {data, data};
}

// The places after the first `steps` steps. A rank that is alone in a step's group keeps its data where it lies.
void ShareComposition::replay(std::size_t steps, LaneData* lane) {
  for (std::size_t step = 0; step < steps; ++step) {
    const bool runs = steps_[step].pool != nullptr;
    Place& top = lane->places.back();
    if (plan_.stages[step].collective == Collective::kReduceScatter) {
      const bool alone = !runs && parts_[step].shares > 0 && !parts_[step].members.empty();
      const Place next = runs ? shard(step, lane) : alone ? top : Place{};
      lane->places.push_back(next);
    } else if (plan_.stages[step].collective == Collective::kAllreduce) {
      if (runs) top.input = top.output;
    } else {
      const Place closed = top;
      lane->places.pop_back();
      Place& opened = lane->places.back();
      const bool is_result = runs || closed.input == opened.output;
      if (is_result) opened.input = opened.output;
    }
  }
}

Status ShareComposition::fill(std::size_t piece, std::uint32_t lane, std::size_t step, StageArgs* args) {
  LaneData& data = lanes_[lane];
  const std::size_t first = balanced_begin(args_.count, element_, pieces_, piece);
  piece_count_ = balanced_begin(args_.count, element_, pieces_, piece + 1) - first;
  data.places.assign(1, {static_cast<const char*>(args_.input) + first * element_,
                         static_cast<char*>(args_.output) + first * element_});
  replay(step, &data);
  const Place from = data.places.back();
  args->input = from.input;
  switch (plan_.stages[step].collective) {
    case Collective::kReduceScatter:
      count_shares(step, &data);
      args->output = shard(step, &data).output;
      args->count = begin_of(step, static_cast<std::size_t>(parts_[step].shares)) - begin_of(step, 0);
      args->recv_counts = data.counts.data();
      break;
    case Collective::kAllgather:
      count_shares(step, &data);
      data.places.pop_back();
      args->output = data.places.back().output;
      args->recv_counts = data.counts.data();
      break;
    default:
      args->output = from.output;
      args->count = begin_of(step, 1) - begin_of(step, 0);
      break;
  }
  return {};
}

}  // namespace roda::execute
