#include "core/execute/compose/slice_run.h"

#include <algorithm>
#include <numeric>

namespace roda::execute {

using schedule::Call;
using schedule::Collective;
using schedule::Range;
using schedule::Region;
using schedule::Space;
using schedule::Step;
using schedule::StepKind;

namespace {

// One copy more, or a longer last one where it goes on from there.
void add(char* tensor, std::size_t offset, std::size_t bytes, std::vector<roda_pack_item>* items) {
  if (bytes == 0) return;
  const auto goes_on = [&](const roda_pack_item& last) {
    return static_cast<char*>(last.tensor) + last.bytes == tensor && last.offset + last.bytes == offset;
  };
  if (!items->empty() && goes_on(items->back())) {
    items->back().bytes += bytes;
  } else {
    items->push_back({tensor, offset, bytes});
  }
}

}  // namespace

SliceRun::SliceRun(const schedule::Schedule& schedule, const SliceMap& map)
    : schedule_(schedule), map_(map), buffer_of_(schedule.scratch.size()), scratch_begins_(schedule.scratch.size()) {
  for (const Region& region : schedule.regions) {
    buffers_.resize(std::max(buffers_.size(), index(region.buffer) + 1));
    std::fill_n(buffer_of_.begin() + region.first, region.count, region.buffer);
  }
}

std::size_t SliceRun::most_bytes(const Range& range) const {
  return map_.most_bytes(map_.blocks(range.space).data() + range.first, index(range.count));
}

Status SliceRun::reserve(WorkMemory* buffer, std::size_t bytes, const std::vector<TransportGroup*>& groups) const {
  RODA_RETURN_IF_ERROR(buffer->reserve(args_.queue, std::max(bytes, kLine)));
  for (TransportGroup* group : groups) buffer->register_with(*group);
  return {};
}

Status SliceRun::reserve(const StageArgs& args, const std::vector<TransportGroup*>& groups) {
  args_ = args;
  if (args_.input == nullptr) args_.input = args_.output;
  std::vector<std::size_t> bytes(buffers_.size());
  for (const Region& region : schedule_.regions) {
    std::size_t& most = bytes[index(region.buffer)];
    most = std::max(most, most_bytes({Space::kScratch, region.first, region.count}));
  }
  for (std::size_t i = 0; i < buffers_.size(); ++i) RODA_RETURN_IF_ERROR(reserve(&buffers_[i], bytes[i], groups));
  std::size_t in = 0, out = 0;
  for (const Step& step : schedule_.lanes.front().steps) {
    if (step.kind != StepKind::kCall) continue;
    if (!lies_together(step.src)) in = std::max(in, most_bytes(step.src));
    if (!lies_together(step.dst)) out = std::max(out, most_bytes(step.dst));
  }
  if (in > 0) RODA_RETURN_IF_ERROR(reserve(&gathered_, in, groups));
  return out > 0 ? reserve(&scattered_, out, groups) : Status();
}

void SliceRun::begin(std::size_t slice) {
  slice_ = slice;
  for (const Region& region : schedule_.regions) {
    std::size_t begin = 0;
    for (std::int32_t chunk = region.first; chunk < region.first + region.count; ++chunk) {
      scratch_begins_[index(chunk)] = begin;
      begin += map_.length(schedule_.scratch[index(chunk)], slice);
    }
  }
}

// An empty range may begin behind the last chunk.
char* SliceRun::address(Space space, std::int32_t chunk) const {
  if (space == Space::kScratch) {
    if (index(chunk) >= buffer_of_.size()) return buffers_.front().data();
    return buffers_[index(buffer_of_[index(chunk)])].data() + scratch_begins_[index(chunk)] * map_.element();
  }
  auto* user = static_cast<char*>(space == Space::kInput ? const_cast<void*>(args_.input) : args_.output);
  if (user == nullptr) return nullptr;  // of a reduce, off the root
  return user + map_.in_user(space, chunk, slice_).begin * map_.element();
}

std::size_t SliceRun::bytes(Space space, std::int32_t chunk) const {
  return map_.length(map_.blocks(space)[index(chunk)], slice_) * map_.element();
}

std::size_t SliceRun::elements(const Range& range) const {
  std::size_t sum = 0;
  for (std::int32_t i = 0; i < range.count; ++i) sum += bytes(range.space, range.first + i);
  return sum / map_.element();
}

// Copies between chunks wherever they lie and memory in which they lie side by side from `offset` on.
void SliceRun::add_items(const Range& user, std::size_t offset) {
  for (std::int32_t chunk = user.first; chunk < user.first + user.count; ++chunk) {
    add(address(user.space, chunk), offset, bytes(user.space, chunk), &items_);
    offset += bytes(user.space, chunk);
  }
}

Status SliceRun::copy(const Step* steps, std::size_t count) {
  if (count == 0) return {};
  const bool packs = steps[0].dst.space == Space::kScratch;
  if (!packs && steps[0].src.space != Space::kScratch) {
    for (std::size_t i = 0; i < count; ++i) {
      for (std::int32_t c = 0; c < steps[i].src.count; ++c) {
        char* to = address(steps[i].dst.space, steps[i].dst.first + c);
        const char* from = address(steps[i].src.space, steps[i].src.first + c);
        if (to != from) RODA_RETURN_IF_ERROR(queue().copy(to, from, bytes(steps[i].src.space, steps[i].src.first + c)));
      }
    }
    return {};
  }
  // One side is a region.
  items_.clear();
  for (std::size_t i = 0; i < count; ++i) {
    const Range& inside = packs ? steps[i].dst : steps[i].src;
    add_items(packs ? steps[i].src : steps[i].dst, scratch_begins_[index(inside.first)] * map_.element());
  }
  const Range& region = packs ? steps[0].dst : steps[0].src;
  char* base = buffers_[index(buffer_of_[index(region.first)])].data();
  return packs ? queue().pack(base, items_.data(), items_.size()) : queue().unpack(base, items_.data(), items_.size());
}

// Elements for each member.
void SliceRun::count(Space space, std::int32_t first, const std::vector<std::int32_t>& ends,
                     std::vector<std::size_t>* counts) const {
  counts->clear();
  std::int32_t next = 0;
  for (const std::int32_t end : ends) {
    counts->push_back(elements({space, first + next, end - next}));
    next = end;
  }
}

Status SliceRun::prepare(const Call& call, const Step& step, StageArgs* args) {
  const bool gathers = !lies_together(step.src);
  args->input = gathers ? gathered_.data() : address(step.src.space, step.src.first);
  args->output = lies_together(step.dst) ? address(step.dst.space, step.dst.first) : scattered_.data();
  if (gathers) {
    items_.clear();
    add_items(step.src, 0);
    RODA_RETURN_IF_ERROR(queue().pack(gathered_.data(), items_.data(), items_.size()));
  }
  count(step.src.space, step.src.first, call.src_ends, &send_counts_);
  count(step.dst.space, step.dst.first, call.dst_ends, &recv_counts_);
  args->recv_counts = recv_counts_.data();
  const bool is_combined = schedule::is(call.collective, RODA_COMBINES);
  if (schedule::is_cut(call.collective)) {
    args->count = elements(is_combined ? step.src : step.dst);
    if (!is_combined && step.src == step.dst) args->input = nullptr;
  } else if (is_combined) {
    args->count = std::accumulate(send_counts_.begin(), send_counts_.end(), std::size_t{0});
    args->recv_counts = send_counts_.data();
  } else if (schedule::is_between_pairs(call.collective)) {
    args->send_counts = send_counts_.data();
    args->max_count = schedule_.stages == 1 ? args_.max_count : map_.longest_part() * index(call.most_blocks);
  }
  if (call.collective == Collective::kAdasum) find_tensors(step.src, args);
  return {};
}

// Where the tensors begin in a share of the data: those before and behind it have no elements there.
void SliceRun::find_tensors(const Range& share, StageArgs* args) {
  const std::int32_t first = map_.blocks(share.space)[index(share.first)].to;
  const std::size_t begin = map_.in_user(Space::kOutput, first, slice_).begin;
  tensor_begins_.clear();
  for (std::size_t i = 0; i < args_.tensors; ++i) {
    const std::size_t tensor = std::max(args_.tensor_begins[i], begin) - begin;
    tensor_begins_.push_back(std::min(tensor, args->count));
  }
  args->tensor_begins = tensor_begins_.data();
  args->tensors = args_.tensors;
}

Status SliceRun::finish(const Step& step) {
  if (lies_together(step.dst)) return {};
  items_.clear();
  add_items(step.dst, 0);
  return queue().unpack(scattered_.data(), items_.data(), items_.size());
}

}  // namespace roda::execute
