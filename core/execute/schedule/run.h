// One run of a program over one slice of a stage's data: brings the data in, drives the lanes, brings it out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/execute/pack.h"
#include "core/execute/schedule/lane_run.h"
#include "plugins/base/copy.h"
#include "plugins/base/invariant.h"

namespace roda::execute {

class Run {
 public:
  // The arguments outlive it.
  Run(TransportGroup& group, const Program& program, const ExecuteOptions& options) : group_(group), program_(program) {
    view_.group = &group;
    view_.program = &program;
    view_.options = &options;
    view_.staged = program.one_sided();
    view_.far.resize(index(program.size));
    for (std::size_t i = 0; i < program.lanes.size(); ++i) {
      lanes_.push_back(std::make_unique<LaneRun>(view_, program.lanes[i], static_cast<std::uint32_t>(i)));
    }
  }

  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Takes the slice on; `args` and `layout` live until it is done. Slices of a one-sided program begin in the same
  // order on every rank.
  Status begin(const StageArgs& args, const Layout& layout, std::size_t slice) {
    RODA_INVARIANT(is_idle(), "a run takes one slice on after the other");
    if (program_.is_native) {
      begin_native(args);
      return {};
    }
    args_ = &args;
    layout_ = &layout;
    if (args.trace != nullptr) began_ = Trace::Clock::now();
    view_.dtype = args.dtype;
    view_.op = args.op;
    view_.element = roda_dtype_size(args.dtype);
    view_.tag = {args.generation, args.launch, args.stage, 0, slice};
    view_.queue = args.queue;
    // Input is only read; the view has one type of pointer for both spaces.
    view_.user[0] = static_cast<char*>(const_cast<void*>(args.input));
    view_.user[1] = static_cast<char*>(args.output);
    view_.user_memory[0] = args.input_memory;
    view_.user_memory[1] = args.output_memory;
    layout.map(slice, &view_.map[0], &view_.map[1]);
    view_.bucket = args.bucket != nullptr;
    view_.sum_factor = view_.bucket && program_.sums_own_chunks ? args.postscale : 1.0;
    if (view_.bucket) use_one_tensor();
    // A missing input means that the contribution lies in the output already.
    view_.contribution = view_.user[0] == nullptr
                             ? reinterpret_cast<std::uintptr_t>(view_.user[1])
                             : reinterpret_cast<std::uintptr_t>(view_.user[0]) - layout.contribution_begin();
    view_.tensor_begins = args.tensor_begins;
    view_.tensors = args.tensors;
    view_.wire = args.wire;
    if (view_.wire.tensors.empty()) {
      view_.whole.seed = args.launch;
      view_.wire.tensors = {&view_.whole, 1};
    }
    RODA_RETURN_IF_ERROR(reserve_scratch());
    for (auto& lane : lanes_) lane->restart();
    copy_run_ = copy_offset_ = told_ = 0;
    copy_chunk_ = 0;
    phase_ = Phase::kCarry;
    if (view_.staged) {
      view_.block_index = group_.next_block(args.slot);
      view_.sequence = ++group_.block(view_.block_index).sequence;
      find_far_peers();
      phase_ = Phase::kLinger;
    }
    return {};
  }

  // Moves on until it must wait, is done, or the budget is spent.
  Status advance(Effort* effort) {
    while (phase_ != Phase::kIdle) {
      bool done = true;
      Phase next = Phase::kIdle;
      switch (phase_) {
        case Phase::kLinger: {
          auto& block = group_.block(view_.block_index);
          done = block.linger_sequence == 0 || !readers_left(block.late_readers, block.linger_sequence);
          if (done) block.linger_sequence = 0;
          next = Phase::kOpen;
          break;
        }
        case Phase::kOpen:
          RODA_RETURN_IF_ERROR(open());
          next = Phase::kCopyIn;
          break;
        case Phase::kCopyIn:
          RODA_RETURN_IF_ERROR(bring_in(effort, &done));
          next = view_.bucket ? Phase::kLanes : Phase::kCarry;
          break;
        case Phase::kCarry:
          RODA_RETURN_IF_ERROR(carry(effort, &done));
          next = Phase::kLanes;
          break;
        case Phase::kLanes:
          RODA_RETURN_IF_ERROR(lanes(effort, &done));
          next = view_.staged ? Phase::kTell : Phase::kIdle;
          break;
        case Phase::kTell:
          RODA_RETURN_IF_ERROR(tell(&done));
          next = Phase::kCopyOut;
          break;
        case Phase::kCopyOut:
          RODA_RETURN_IF_ERROR(bring_out(effort, &done));
          // Reads of the block may outlast the run, unless they need this rank's progress.
          if (group_.context().has(RODA_CAP_ACTIVE_WINDOWS)) next = Phase::kLeave;
          break;
        case Phase::kLeave:
          done = !readers_left(program_.late_readers, view_.sequence);
          break;
        case Phase::kNative:
          RODA_RETURN_IF_ERROR(native(effort, &done));
          break;
        case Phase::kIdle:
          break;
      }
      if (!done) return {};
      phase_ = next;
      ++effort->moves;
    }
    return {};
  }

  bool is_idle() const { return phase_ == Phase::kIdle; }
  // Whether all work of a library's own collective lies on the launch's stream.
  bool is_on_stream() const { return accepted_ && native_.stream != nullptr && group_.is_on_stream(request_); }
  // Its slice, where somebody asks.
  Trace::Clock::time_point began() const { return began_; }
  // After a failure: true when no request is pending any more.
  bool release() {
    if (request_ != nullptr && group_.test_request(request_) == RODA_IN_PROGRESS) return false;
    request_ = nullptr;
    bool all = true;
    for (auto& lane : lanes_) all &= lane->release();
    bool is_over = true;
    if (carried_ != nullptr && carried_->test(&is_over).ok() && !is_over) return false;
    carried_.reset();
    if (all) phase_ = Phase::kIdle;
    return all;
  }

  std::string describe() const {
    switch (phase_) {
      case Phase::kLinger:
      case Phase::kLeave:
        return "waits until its peers have read its data";
      case Phase::kLanes:
        break;
      case Phase::kNative:
        return accepted_ ? "under way" : "not accepted yet";
      case Phase::kIdle:
        return "done";
      default:
        return "copies";
    }
    std::string text;
    for (const auto& lane : lanes_) {
      if (lane->done()) continue;
      text += (text.empty() ? "" : "; ") + lane->describe();
    }
    return text;
  }

 private:
  // Plain copies that cost more percent of storing past the cache fetch the lines that they write over from another
  // cache: 300 and more. Others take 25 to 110, and what they store is quicker to read.
  static constexpr std::uint32_t kFarPercent = 200;

  enum class Phase { kLinger, kOpen, kCopyIn, kCarry, kLanes, kTell, kCopyOut, kLeave, kNative, kIdle };
  using ChunkRun = schedule::ChunkRun;
  using Way = schedule::Places::Way;

  // A library's own collective takes the data as they are.
  void begin_native(const StageArgs& args) {
    native_ = roda_collective_args{};
    native_.struct_size = sizeof native_;
    native_.collective = args.collective;
    native_.dtype = args.dtype;
    native_.op = args.op;
    native_.root = args.root;
    native_.memory_kind = args.queue == nullptr ? int{RODA_MEMORY_HOST} : args.queue->memory_kind();
    native_.input = args.input == nullptr && args.collective == RODA_BROADCAST ? args.output : args.input;
    native_.output = args.output;
    native_.count = args.collective != RODA_ALLTOALL ? args.count : args.is_even ? args.send_counts[0] : 0;
    native_.send_counts = args.send_counts;
    native_.recv_counts = args.recv_counts;
    native_.tag = Tag{args.generation, args.launch, args.stage, 0, 0}.packed();
    native_.stream = args.queue == nullptr ? nullptr : args.queue->stream;
    RODA_INVARIANT(request_ == nullptr, "a native collective has one request at a time");
    number_ = group_.draw_number();
    accepted_ = false;
    phase_ = Phase::kNative;
  }

  Status native(Effort* effort, bool* done) {
    int code = RODA_OK;
    *done = false;
    if (!accepted_) {
      if (!group_.is_next(number_)) return {};
      code = group_.start_collective(native_, &request_);
      if (code == RODA_AGAIN) return {};
      accepted_ = true;
      ++effort->moves;
    }
    if (code >= 0 && request_ != nullptr) code = group_.test_request(request_);
    if (code == RODA_IN_PROGRESS) return {};
    request_ = nullptr;
    *done = true;
    return group_.error(code);
  }

  // A slice of a bucket that is a part of one tensor is treated like any tensor. (A factor before the sum would have to
  // be applied to the user's input, which is only read.)
  void use_one_tensor() {
    const std::size_t begin = view_.map[1].user.front();
    const void* input = nullptr;
    void* output = nullptr;
    const bool one = args_->bucket->lies_in_one_tensor(begin, view_.map[1].prefix.back(), &input, &output);
    if (!one || args_->prescale != 1.0) return;
    view_.bucket = false;
    view_.user[0] = static_cast<char*>(const_cast<void*>(input));
    view_.user[1] = static_cast<char*>(output);
    for (SpaceMap& map : view_.map) {
      for (std::size_t& offset : map.user) offset -= begin;
    }
  }

  // Peers reach the slice where the user has it: that is its block then. It is each rank's own affair, as a slice's
  // chunks lie alike in both. For allreduces in place: at their end nobody reads any more, or the schedule says so.
  const roda_memory* lent_memory() const {
    const bool is_for_it = schedule::takes_buckets(program_) && program_.in_place && program_.late_readers.empty();
    const SpaceMap& map = view_.map[1];
    if (!is_for_it || view_.bucket || map.user.empty()) return nullptr;
    return group_.find_lent(view_.user[1] + map.user.front(), map.prefix.back());
  }

  // For how this rank stores what others read; ranks need not agree.
  void find_far_peers() {
    view_.any_far = false;
    if (std::max(view_.map[0].prefix.back(), view_.map[1].prefix.back()) < view_.options->far_bytes) return;
    for (std::int32_t peer = 0; peer < program_.size; ++peer) {
      view_.far[index(peer)] = peer != program_.rank && group_.store_cost(peer) >= kFarPercent;
      view_.any_far |= view_.far[index(peer)];
    }
  }

  // The block, and windows over what peers touch of it.
  Status open() {
    if (!view_.bucket && !program_.uses_block) return {};
    const roda_memory* lent = lent_memory();
    view_.streams = lent != nullptr && view_.any_far;
    if (lent != nullptr) {
      view_.block[1] = view_.user[1] + view_.map[1].user.front();
      return group_.open_window(view_.block_index, 1, view_.block[1], view_.map[1].prefix.back(), lent);
    }
    const std::size_t bytes[2] = {layout_->block_bytes(schedule::Space::kInput),
                                  layout_->block_bytes(schedule::Space::kOutput)};
    const std::size_t input = align_up(bytes[0]);
    roda_memory* memory = nullptr;
    RODA_RETURN_IF_ERROR(
        group_.staging(view_.block_index, std::max(input + bytes[1], view_.options->block_bytes), &memory));
    view_.block_memory = memory;
    view_.block[0] = static_cast<char*>(memory->address);
    view_.block[1] = view_.block[0] + input;
    for (int w = 0; w < 2; ++w) {
      if (!program_.window[w] || bytes[w] == 0) continue;
      RODA_RETURN_IF_ERROR(group_.open_window(view_.block_index, w, view_.block[w], bytes[w], memory));
    }
    return {};
  }

  Status lanes(Effort* effort, bool* done) {
    *done = true;
    for (auto& lane : lanes_) {
      if (!lane->done()) RODA_RETURN_IF_ERROR(lane->advance(effort));
      *done &= lane->done();
    }
    return {};
  }

  // Tells the peers that wait for it that this rank reads their windows no longer, and notes who will say so to this
  // one.
  Status tell(bool* done) {
    const auto& peers = program_.tell_readers;
    for (; told_ < peers.size(); ++told_) {
      const int code = group_.signal(peers[told_], group_.linger_index(view_.block_index), view_.sequence);
      *done = code != RODA_AGAIN;
      if (!*done) return {};
      RODA_RETURN_IF_ERROR(group_.error(code));
    }
    if (!program_.late_readers.empty()) {
      auto& block = group_.block(view_.block_index);
      block.linger_sequence = view_.sequence;
      block.late_readers = program_.late_readers;
    }
    return {};
  }

  bool readers_left(const std::vector<std::int32_t>& readers, std::uint64_t sequence) {
    const std::uint32_t index = group_.linger_index(view_.block_index);
    return std::ranges::any_of(readers, [&](std::int32_t peer) { return group_.signal_value(peer, index) < sequence; });
  }

  // A bucket's slice goes into the block, and the result out of it, at once: they are no longer than a block.
  Status bring_in(Effort* effort, bool* done) {
    if (!view_.bucket) {
      *done = copy(program_.copy_in, Way::kIn, effort);
      return {};
    }
    const SpaceMap& map = view_.map[1];
    effort->spend(map.prefix.back());
    char* to = view_.block[program_.in_place ? 1 : 0];
    return args_->bucket->pack_part(to, map.user.front(), map.prefix.back(), args_->prescale, view_.any_far);
  }

  Status bring_out(Effort* effort, bool* done) {
    const SpaceMap& map = view_.map[1];
    const double factor = program_.sums_own_chunks ? 1.0 : args_->postscale;
    if (view_.bucket) {
      effort->spend(map.prefix.back());
      return args_->bucket->unpack_part(view_.block[1], map.user.front(), map.prefix.back(), factor);
    }
    *done = copy(program_.copy_out, Way::kOut, effort);
    if (!*done || args_->bucket == nullptr) return {};
    return args_->bucket->scale(view_.user[1], map.prefix.back(), factor);
  }

  // Copies the chunks one way, as far as the budget goes. True when all are copied.
  bool copy(const std::vector<ChunkRun>& chunks, Way way, Effort* effort) {
    const roda_host& host = group_.context().host();
    for (; copy_run_ < chunks.size(); ++copy_run_, copy_chunk_ = 0, copy_offset_ = 0) {
      const ChunkRun& run = chunks[copy_run_];
      const SpaceMap& map = view_.map[RunView::which(run.space)];
      for (; copy_chunk_ < run.count; ++copy_chunk_, copy_offset_ = 0) {
        const std::size_t chunk = index(run.first + copy_chunk_);
        const std::size_t total = map.prefix[chunk + 1] - map.prefix[chunk];
        const char* from = view_.from(way, run.space, chunk);
        const bool far = way == Way::kIn && view_.goes_far(run.space, run.first + copy_chunk_, 1);
        char* to = view_.to(way, run.space, chunk);
        if (from == to) continue;
        while (copy_offset_ < total) {
          if (effort->budget == 0) return false;
          const std::size_t bytes = std::min(effort->budget, total - copy_offset_);
          if (far) {
            cpu::copy_streaming(to + copy_offset_, from + copy_offset_, bytes);
          } else {
            host.copy(host.self, to + copy_offset_, from + copy_offset_, bytes);
          }
          copy_offset_ += bytes;
          effort->spend(bytes);
        }
      }
    }
    copy_run_ = copy_offset_ = 0;
    copy_chunk_ = 0;
    return true;
  }

  // This rank's contribution to its places in the output, unless it lies there.
  Status carry(Effort* effort, bool* done) {
    *done = view_.lies_in_output();
    if (*done) return {};
    if (view_.queue != nullptr) return carry_on_device(done);
    *done = copy(view_.staged ? program_.carry : program_.contribution, Way::kCarry, effort);
    return {};
  }

  Status carry_on_device(bool* done) {
    if (carried_ == nullptr) {
      const SpaceMap& map = view_.map[1];
      for (const ChunkRun& run : program_.contribution) {
        for (std::size_t chunk = index(run.first); chunk < index(run.first + run.count); ++chunk) {
          const auto* from = view_.from(Way::kCarry, run.space, chunk);
          RODA_RETURN_IF_ERROR(
              view_.queue->copy(view_.user[1] + map.user[chunk], from, map.prefix[chunk + 1] - map.prefix[chunk]));
        }
      }
      RODA_RETURN_IF_ERROR(DeviceEvent::record(*view_.queue, &carried_));
    }
    RODA_RETURN_IF_ERROR(carried_->test(done));
    if (*done) carried_.reset();
    return {};
  }

  Status reserve_scratch() {
    view_.product_bytes = 3 * sizeof(double) * args_->tensors;
    view_.product_stride = align_up(view_.product_bytes);
    const std::size_t products = index(program_.product_chunks) * view_.product_stride;
    if (products > 0) RODA_RETURN_IF_ERROR(view_.product_memory.reserve(nullptr, products));
    view_.products = view_.product_memory.data();
    if (program_.scratch_copies == 0) return {};
    const SpaceMap& data = view_.map[RunView::which(program_.scratch_of)];
    view_.scratch_stride = align_up(program_.scratch_is_own ? data.bytes(program_.rank, 1) : data.prefix.back());
    RODA_RETURN_IF_ERROR(view_.scratch.reserve(view_.queue, view_.scratch_stride * index(program_.scratch_copies)));
    view_.scratch_begin = view_.scratch.data();
    view_.scratch.register_with(group_);
    return {};
  }

  TransportGroup& group_;
  const Program& program_;
  RunView view_;
  std::vector<std::unique_ptr<LaneRun>> lanes_;
  std::shared_ptr<DeviceEvent> carried_;  // on a device: behind the copies under way
  Phase phase_ = Phase::kIdle;
  const StageArgs* args_ = nullptr;
  const Layout* layout_ = nullptr;
  Trace::Clock::time_point began_;
  std::size_t copy_run_ = 0;  // cursor of copy()
  std::int32_t copy_chunk_ = 0;
  std::size_t copy_offset_ = 0;
  std::size_t told_ = 0;

  // Of a library's own collective.
  roda_collective_args native_{};
  roda_request* request_ = nullptr;
  std::uint64_t number_ = 0;  // among those of the group
  bool accepted_ = false;     // false: it is not its turn, or the transport said RODA_AGAIN so far
};

}  // namespace roda::execute
