// One slice of a composition's data on its way: the memory of its regions, its copies, and what its calls work
// on.
//
// On a device copies are put on the launch's stream. Threads: the holder of the engine's baton.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "core/execute/device_queue.h"
#include "core/execute/layout.h"
#include "core/execute/memory.h"
#include "core/execute/stage.h"
#include "plugins/base/invariant.h"

namespace roda::execute {

using schedule::Op;
using schedule::Operand;
using schedule::OpKind;

class SliceRun {
 public:
  // Both outlive it.
  SliceRun(const schedule::Program& program, const Layout& layout)
      : program_(program),
        layout_(layout),
        buffer_of_(program.scratch.size()),
        send_counts_(index(program.stages)),
        recv_counts_(index(program.stages)) {
    for (const schedule::Region& region : program.regions) {
      buffers_.resize(std::max(buffers_.size(), index(region.buffer) + 1));
      std::fill_n(buffer_of_.begin() + region.first, region.count, region.buffer);
    }
  }

  // Before the slices of a launch, which `args` lives for: memory for any of them. On a device the groups' libraries
  // may prepare for it.
  Status reserve(const StageArgs& args, const std::vector<TransportGroup*>& groups) {
    RODA_INVARIANT(args.queue == nullptr || !args.queue->is_host(), "a launch with a queue works on a device");
    args_ = args;
    if (args_.input == nullptr) args_.input = args_.output;
    std::vector<std::size_t> bytes(buffers_.size());
    for (const schedule::Region& region : program_.regions) {
      std::size_t& most = bytes[index(region.buffer)];
      most = std::max(most, layout_.most_bytes(schedule::Space::kScratch, region.first, region.count));
    }
    for (std::size_t i = 0; i < buffers_.size(); ++i) RODA_RETURN_IF_ERROR(reserve(&buffers_[i], bytes[i], groups));
    std::size_t in = 0, out = 0;
    for (const Op& op : program_.lanes.front().ops) {
      if (op.kind != OpKind::kCall) continue;
      if (!lies_together(op.src)) in = std::max(in, layout_.most_bytes(op.src.space, op.src.first, op.src.count));
      if (!lies_together(op.dst)) out = std::max(out, layout_.most_bytes(op.dst.space, op.dst.first, op.dst.count));
    }
    if (in > 0) RODA_RETURN_IF_ERROR(reserve(&gathered_, in, groups));
    return out > 0 ? reserve(&scattered_, out, groups) : Status();
  }

  // Takes a slice on.
  void begin(std::size_t slice) {
    RODA_INVARIANT(slice < layout_.slices(), "a slice is one of the launch's");
    layout_.map(slice, &maps_[0], &maps_[1]);
    layout_.map_scratch(slice, maps_[1], &maps_[2]);
  }

  // A run of copies of the program.
  Status copy(std::span<const Op> ops) {
    if (ops.empty()) return {};
    const auto source = [this](const Op& op) -> const Operand& { return program_.sources_of(op).front().operand; };
    const bool packs = ops[0].dst.space == schedule::Space::kScratch;
    if (!packs && source(ops[0]).space != schedule::Space::kScratch) {
      for (const Op& op : ops) {
        const Operand& src = source(op);
        for (std::int32_t c = 0; c < src.count; ++c) {
          char* to = address(op.dst.space, op.dst.first + c);
          const char* from = address(src.space, src.first + c);
          if (to != from) RODA_RETURN_IF_ERROR(queue().copy(to, from, bytes(src.space, src.first + c)));
        }
      }
      return {};
    }
    // A copy, of which one side is a region.
    items_.clear();
    for (const Op& op : ops) {
      const Operand& inside = packs ? op.dst : source(op);
      add_items(packs ? source(op) : op.dst, maps_[2].user[index(inside.first)]);
    }
    const Operand& region = packs ? ops[0].dst : source(ops[0]);
    RODA_INVARIANT(index(region.first) < buffer_of_.size(), "what is packed, or unpacked, lies in a region");
    char* base = buffers_[index(buffer_of_[index(region.first)])].data();
    return packs ? queue().pack(base, items_.data(), items_.size())
                 : queue().unpack(base, items_.data(), items_.size());
  }

  // Fills what the call works on: input, output, counts. The counts live until the same call of another slice.
  Status prepare(const schedule::Call& call, const Op& op, StageArgs* args) {
    RODA_INVARIANT(index(call.stage) < send_counts_.size(), "a call is of one of the plan's stages");
    const schedule::Collective collective = call.program->collective;
    const bool gathers = !lies_together(op.src);
    args->input = gathers ? gathered_.data() : address(op.src.space, op.src.first);
    args->output = lies_together(op.dst) ? address(op.dst.space, op.dst.first) : scattered_.data();
    if (gathers) {
      items_.clear();
      add_items(op.src, 0);
      RODA_RETURN_IF_ERROR(queue().pack(gathered_.data(), items_.data(), items_.size()));
    }
    std::vector<std::size_t>& send_counts = send_counts_[index(call.stage)];
    std::vector<std::size_t>& recv_counts = recv_counts_[index(call.stage)];
    count(op.src, call.src_ends, &send_counts);
    count(op.dst, call.dst_ends, &recv_counts);
    args->recv_counts = recv_counts.data();
    const bool is_combined = schedule::is(collective, RODA_COMBINES);
    if (schedule::is_cut(collective)) {
      args->count = elements(is_combined ? op.src : op.dst);
      if (!is_combined && op.src == op.dst) args->input = nullptr;
    } else if (is_combined) {
      args->count = std::accumulate(send_counts.begin(), send_counts.end(), std::size_t{0});
      args->recv_counts = send_counts.data();
    } else if (schedule::is_between_pairs(collective)) {
      args->send_counts = send_counts.data();
      args->max_count = program_.stages == 1 ? args_.max_count : layout_.longest_part() * index(call.most_blocks);
    }
    if (collective == schedule::Collective::kAdasum) find_tensors(op.src, args);
    if (!args_.wire.tensors.empty() && op.src.count > 0) args->wire = {args_.wire.tensors, begin_of(op.src)};
    return {};
  }

  // The call has ended.
  Status finish(const Op& op) {
    if (lies_together(op.dst)) return {};
    items_.clear();
    add_items(op.dst, 0);
    RODA_INVARIANT(items_.empty() || scattered_.data() != nullptr, "memory for what a call scatters is reserved");
    return queue().unpack(scattered_.data(), items_.data(), items_.size());
  }

 private:
  // Adds a copy, or makes the last one longer where the new one goes on from its end.
  static void add(char* tensor, std::size_t offset, std::size_t bytes, std::vector<roda_pack_item>* items) {
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

  DeviceQueue queue() const { return args_.queue == nullptr ? DeviceQueue() : *args_.queue; }
  Status reserve(WorkMemory* buffer, std::size_t bytes, const std::vector<TransportGroup*>& groups) const {
    RODA_RETURN_IF_ERROR(buffer->reserve(args_.queue, std::max(bytes, kLine)));
    for (TransportGroup* group : groups) buffer->register_with(*group);
    return {};
  }

  bool lies_together(const Operand& data) const {
    return data.space == schedule::Space::kScratch || layout_.is_contiguous(data.count);
  }
  // An empty range may begin behind the last chunk.
  char* address(schedule::Space space, std::int32_t chunk) const {
    if (space == schedule::Space::kScratch) {
      if (index(chunk) >= buffer_of_.size()) return buffers_.front().data();
      return buffers_[index(buffer_of_[index(chunk)])].data() + maps_[2].user[index(chunk)];
    }
    auto* user = static_cast<char*>(space == schedule::Space::kInput ? const_cast<void*>(args_.input) : args_.output);
    if (user == nullptr) return nullptr;  // of a reduce, off the root
    const std::vector<std::size_t>& begins = map_of(space).user;
    return index(chunk) < begins.size() ? user + begins[index(chunk)] : user;
  }

  const SpaceMap& map_of(schedule::Space space) const { return maps_[static_cast<std::size_t>(space)]; }
  std::size_t bytes(schedule::Space space, std::int32_t chunk) const { return map_of(space).bytes(chunk, 1); }

  // Copies between chunks wherever they lie and memory in which they lie side by side from `offset` on.
  void add_items(const Operand& user, std::size_t offset) {
    for (std::int32_t chunk = user.first; chunk < user.first + user.count; ++chunk) {
      add(address(user.space, chunk), offset, bytes(user.space, chunk), &items_);
      offset += bytes(user.space, chunk);
    }
  }

  // Elements for each member.
  void count(Operand data, const std::vector<std::int32_t>& ends, std::vector<std::size_t>* counts) const {
    counts->clear();
    const std::int32_t first = data.first;
    for (const std::int32_t end : ends) {
      data.count = first + end - data.first;
      counts->push_back(elements(data));
      data.first = first + end;
    }
  }

  std::size_t elements(const Operand& data) const {
    return data.count == 0 ? 0 : map_of(data.space).bytes(data.first, data.count) / layout_.element();
  }

  // The element of all data with which a share of them begins.
  std::size_t begin_of(const Operand& share) const {
    const bool is_scratch = share.space == schedule::Space::kScratch;
    const std::int32_t first = is_scratch ? program_.scratch[index(share.first)].to : share.first;
    return maps_[1].user[index(first)] / layout_.element();
  }

  // Where the tensors begin in a share of the data: those before and behind it have no elements there.
  void find_tensors(const Operand& share, StageArgs* args) {
    const std::size_t begin = begin_of(share);
    tensor_begins_.clear();
    for (std::size_t i = 0; i < args_.tensors; ++i) {
      const std::size_t tensor = std::max(args_.tensor_begins[i], begin) - begin;
      tensor_begins_.push_back(std::min(tensor, args->count));
    }
    args->tensor_begins = tensor_begins_.data();
    args->tensors = args_.tensors;
  }

  const schedule::Program& program_;
  const Layout& layout_;
  StageArgs args_;
  SpaceMap maps_[3];  // of the slice: Input, Output and Scratch
  std::vector<WorkMemory> buffers_;
  WorkMemory gathered_, scattered_;      // in the place of chunks that do not lie side by side
  std::vector<std::int32_t> buffer_of_;  // [scratch chunk]
  std::vector<std::vector<std::size_t>> send_counts_, recv_counts_;  // [stage]
  std::vector<std::size_t> tensor_begins_;
  std::vector<roda_pack_item> items_;  // copies that are to be made
};

}  // namespace roda::execute
