// Runs a composition (algorithms/plan/compile.h): the data are cut into slices, and each slice goes through the
// program's ops one after the other. Calls of different slices overlap, so that the levels work at the same time.
//
// A call of a slice starts when the one before it has ended, its data lie where it works, and it is its turn
// (StartOrder). On a device it is enough that the one before it lies on the stream.
#include <algorithm>
#include <cctype>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "core/execute/compose/slice_run.h"
#include "core/execute/compose/staging.h"
#include "core/execute/group.h"
#include "core/execute/slices.h"
#include "plugins/base/invariant.h"

namespace roda::execute {
namespace {

using schedule::Call;
using schedule::Program;

class ComposedStage final : public Stage {
 public:
  ComposedStage(std::string name, std::shared_ptr<const Program> program, const std::vector<TransportGroup*>& groups,
                const ExecuteOptions& execute, ComposedOptions options)
      : Stage(std::move(program)), name_(std::move(name)), execute_(execute), options_(std::move(options)) {
    lay_out(groups);
    order_ = StartOrder(plan::kLevelSlicesInFlight, rivals());
    for (std::size_t i = 0; i < plan::kLevelSlicesInFlight; ++i) {
      slices_.add(std::make_unique<Slice>(Stage::program(), layout_, i));
    }
  }

  std::uint64_t moves() const override {
    std::uint64_t moves = moves_;
    for (const auto& slice : slices_.places()) {
      if (slice->handle != nullptr) moves += slice->handle->moves();
    }
    for (const OnStream& call : on_stream_) moves += call.handle->moves();
    return moves;
  }

  bool is_on_stream() override {
    return is_running() && phase_ == Phase::kUp && (is_staged_ || !options_.data.empty());
  }

  std::string describe() const override {
    std::string text = name_;
    if (!is_running()) return text + ": idle";
    if (phase_ == Phase::kDown) return text + ": being copied from the device";
    text += slices_.describe();
    const Slice& oldest = slices_.oldest();
    if (oldest.handle != nullptr) return text + ": " + oldest.handle->describe();
    if (!on_stream_.empty()) return text + ": " + on_stream_.front().handle->describe();
    const bool is_copied = phase_ == Phase::kUp || (!oldest.is_idle() && calls_[oldest.call].is_beside_stream());
    return is_copied ? text + ": being copied from or to the device" : text;
  }

 private:
  // A call that this rank takes part in, and what runs it.
  struct Runner {
    std::span<const Op> copies;  // before it
    const Op& op;
    const Call& call;
    TransportGroup& group;
    StepData data = StepData::kOnStream;
    Stages stages = {};
    bool is_beside_stream() const { return data != StepData::kOnStream; }
    std::size_t stage() const { return static_cast<std::size_t>(call.stage); }
  };
  // Where a slice, or all of the data, is: before its next call, copied to where the call works, at the call; of all of
  // the data: copied back, or on the stream with all that belongs to it.
  enum class Phase : std::uint8_t { kIdle, kNext, kDown, kCall, kUp };
  // A slice on its way.
  struct Slice {
    Slice(const Program& program, const Layout& layout, std::uint32_t at) : run(program, layout), place(at) {}
    bool is_idle() const { return phase == Phase::kIdle; }
    SliceRun run;
    const std::uint32_t place;
    std::size_t number = 0;
    std::size_t call = 0;  // of calls_: the one under way, or the next
    Phase phase = Phase::kIdle;
    StageArgs args;      // of the call
    StageHandle handle;  // null: the call does not run
    Staging staging;
    Trace::Clock::time_point began;  // the call, where somebody asks
  };
  // A call that lies on the device's stream: what comes next there is behind it, and its end is still to be seen.
  struct OnStream {
    StageHandle handle;
    const Runner* call = nullptr;
    std::size_t slice = 0;
    Trace::Clock::time_point began;
  };
  void lay_out(const std::vector<TransportGroup*>& groups) {
    const std::span<const Op> ops = program().lanes.front().ops;
    calls_.reserve(program().calls.size());
    std::size_t first = 0;  // of the copies before the next call
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (ops[i].kind != OpKind::kCall) continue;
      const Call& call = program().calls[ops[i].source];
      const auto stage = static_cast<std::size_t>(call.stage);
      const StepData data = options_.data.empty() ? StepData::kOnStream : options_.data[stage];
      calls_.push_back({ops.subspan(first, i - first), ops[i], call, *groups[stage], data});
      if (!options_.data.empty() && data != StepData::kStaged) on_device_.push_back(groups[stage]);
      first = i + 1;
    }
    tail_ = ops.subspan(first);
  }

  Status begin(const StageArgs& args) override {
    args_ = args;
    is_staged_ = args.queue != nullptr && options_.data.empty();
    phase_ = is_staged_ ? Phase::kDown : Phase::kCall;
    if (is_staged_) {
      RODA_RETURN_IF_ERROR(whole_.begin(args, program().rank, program().size, StepData::kStaged));
      args_ = whole_.args();
    }
    RODA_RETURN_IF_ERROR(layout_.plan(args_, program(), options_.slice_bytes));
    slices_.reset(layout_.slices());
    for (const auto& slice : slices_.places()) {
      if (slice->place < layout_.slices()) {
        RODA_RETURN_IF_ERROR(slice->run.reserve(args_, on_device_));
      }
    }
    order_.reset(layout_.slices());
    return {};
  }

  Status advance(bool* done) override {
    bool is_over = true;
    if (phase_ == Phase::kDown) {
      RODA_RETURN_IF_ERROR(whole_.test(&is_over));
      if (!is_over) return {};
      phase_ = Phase::kCall;
      ++moves_;
    }
    if (phase_ == Phase::kCall) {
      RODA_RETURN_IF_ERROR(advance_slices());
      if (!slices_.has_ended()) return end_on_stream();
      if (is_staged_) RODA_RETURN_IF_ERROR(whole_.copy_up());
      phase_ = Phase::kUp;
      if (is_on_stream()) return {};  // what the caller puts there now need not wait for what the host sees
    }
    RODA_RETURN_IF_ERROR(end_on_stream());
    *done = on_stream_.empty();
    if (is_staged_ && *done) return whole_.test(done);
    for (const auto& slice : slices_.places()) *done = *done && slice->staging.is_quiet();
    return {};
  }

  void abort_groups(const Status& cause) override {
    for (const auto& slice : slices_.places()) {
      if (slice->handle != nullptr) slice->handle->abort(cause);
    }
    for (const OnStream& call : on_stream_) call.handle->abort(cause);
    for (const Runner& call : calls_) call.group.abort(cause);
  }

  bool release() override {
    std::erase_if(on_stream_, [](const OnStream& call) {
      bool ended = true;
      static_cast<void>(call.handle->test(&ended));
      return ended;
    });
    bool released = on_stream_.empty() && whole_.is_quiet();
    for (const auto& slice : slices_.places()) {
      bool ended = true;
      if (slice->handle != nullptr) static_cast<void>(slice->handle->test(&ended));
      released = released && ended && slice->staging.is_quiet();
      if (!ended) continue;
      slice->handle.reset();
      slice->phase = Phase::kIdle;
    }
    return released;
  }

  Status advance_slices() {
    RODA_RETURN_IF_ERROR(slices_.begin([&](Slice& slice, std::size_t number) { return begin(&slice, number); }));
    return slices_.advance([&](Slice& slice) { return advance(&slice); }, [](const Slice&, std::size_t) {});
  }

  static Status begin(Slice* slice, std::size_t number) {
    RODA_INVARIANT(slice->handle == nullptr && slice->is_idle(),
                   "a slice begins when the one before it in its place has ended");
    slice->number = number;
    slice->call = 0;
    slice->phase = Phase::kNext;
    slice->run.begin(number);
    return {};
  }

  // Takes the slice as far as it goes without waiting. Copies of later slices may end before those of earlier ones;
  // calls begin in order.
  Status advance(Slice* slice) {
    if (slice->is_idle()) return {};
    for (; slice->call < calls_.size(); ++slice->call) {
      bool done = false;
      RODA_RETURN_IF_ERROR(advance_call(slice, &done));
      if (!done) return {};
      RODA_RETURN_IF_ERROR(slice->run.finish(calls_[slice->call].op));
      slice->phase = Phase::kNext;
    }
    slice->phase = Phase::kIdle;
    return slice->run.copy(tail_);
  }

  Status advance_call(Slice* slice, bool* done) {
    Runner& call = calls_[slice->call];
    if (slice->phase == Phase::kNext) {
      RODA_RETURN_IF_ERROR(bring_down(call, slice));
      slice->phase = Phase::kDown;
    }
    if (slice->phase == Phase::kDown) {
      bool is_there = true;
      if (call.is_beside_stream()) RODA_RETURN_IF_ERROR(slice->staging.test(&is_there));
      if (!is_there || !order_.may_begin(call.stage(), slice->number) || !slot_is_free(call, *slice)) return {};
      RODA_RETURN_IF_ERROR(start_call(call, slice));
      order_.begun(call.stage());
      slice->phase = Phase::kCall;
      ++moves_;
    }
    return pass_call(call, slice, done);
  }

  // *done: the call has ended, or what comes behind it may be put on the stream.
  Status pass_call(const Runner& call, Slice* slice, bool* done) {
    const bool works_on_stream = !options_.data.empty() && !call.is_beside_stream();
    bool has_ended = false, lies_there = works_on_stream && slice->handle->is_on_stream();
    if (!lies_there) {
      if (Status status = slice->handle->test(&has_ended); !status.ok()) {
        slice->handle.reset();
        return status;
      }
      lies_there = works_on_stream && !has_ended && slice->handle->is_on_stream();
    }
    *done = has_ended || lies_there;
    if (lies_there) on_stream_.push_back({std::move(slice->handle), &call, slice->number, slice->began});
    return has_ended ? end_call(call, slice) : Status();
  }

  // In their order.
  Status end_on_stream() {
    while (!on_stream_.empty()) {
      OnStream& first = on_stream_.front();
      bool has_ended = false;
      const Status status = first.handle->test(&has_ended);
      if (!has_ended) return {};
      moves_ += first.handle->moves() + 1;
      if (args_.trace != nullptr) tell_of_call(*first.call, first.slice, first.began);
      on_stream_.pop_front();
      RODA_RETURN_IF_ERROR(status);
    }
    return {};
  }

  // Slots of the call's group that one launch may use. 0: calls need none.
  std::uint32_t slots_per_launch(const Runner& call) const {
    const std::uint32_t slots = call.group.slots();
    return slots == 0 ? 0 : std::max(slots / options_.launches, 1u);
  }

  // Whether the group tells calls apart by their order, or has too few slots for all slices.
  bool needs_order(const Runner& call) const {
    const std::uint32_t slots = slots_per_launch(call);
    return call.call.program->is_native || (slots != 0 && slots < plan::kLevelSlicesInFlight);
  }

  // Whether the two must keep one order: they share a group, or the stream of a device, where one that waits for its
  // peers holds up what is behind it.
  bool share_order(const Runner& one, const Runner& other) const {
    const bool on_one_stream = !options_.data.empty() && !one.is_beside_stream() && !other.is_beside_stream();
    return (on_one_stream || &one.group == &other.group) && needs_order(one) && needs_order(other);
  }

  std::vector<std::vector<std::size_t>> rivals() const {
    std::vector<std::vector<std::size_t>> rivals(static_cast<std::size_t>(program().stages));
    for (const Runner& one : calls_) {
      for (const Runner& other : calls_) {
        if (&one != &other && share_order(one, other)) rivals[one.stage()].push_back(other.stage());
      }
    }
    return rivals;
  }

  // Where slices outnumber slots a call waits for the one that has its slot, which began before it on every rank.
  bool slot_is_free(const Runner& call, const Slice& slice) const {
    const std::uint32_t slots = slots_per_launch(call);
    return slots == 0 || std::ranges::none_of(slices_.places(), [&](const auto& other) {
             const bool shares = other->handle != nullptr && &calls_[other->call].group == &call.group;
             return shares && other->place % slots == slice.place % slots;
           });
  }

  StageArgs call_args(const Runner& call, const Slice& slice) const {
    StageArgs args;
    args.collective = static_cast<std::int32_t>(call.call.program->collective);
    args.dtype = args_.dtype;
    args.op = args_.op;
    args.root = call.call.program->root;
    args.launch = args_.launch;
    args.generation = args_.generation;
    args.stage = static_cast<std::uint32_t>(slice.place * static_cast<std::size_t>(program().stages) + call.stage());
    if (const std::uint32_t slots = slots_per_launch(call); slots != 0) {
      args.slot = (args_.slot % options_.launches * slots + slice.place % slots) % call.group.slots();
    }
    args.queue = args_.queue;
    return args;
  }

  // Makes the copies before the call, and where the call works beside the stream, stages its data.
  Status bring_down(const Runner& call, Slice* slice) {
    RODA_RETURN_IF_ERROR(slice->run.copy(call.copies));
    slice->args = call_args(call, *slice);
    RODA_RETURN_IF_ERROR(slice->run.prepare(call.call, call.op, &slice->args));
    if (!call.is_beside_stream()) return {};
    return slice->staging.begin(slice->args, call.group.rank(), call.group.size(), call.data);
  }

  Status start_call(Runner& call, Slice* slice) {
    if (args_.trace != nullptr) slice->began = Trace::Clock::now();
    const StageArgs& args = call.is_beside_stream() ? slice->staging.args() : slice->args;
    const auto make = [&](std::unique_ptr<Stage>* made) {
      return make_stage(call.call.program, call.group, execute_, made);
    };
    RODA_RETURN_IF_ERROR(call.stages.take(make, &slice->handle));
    const Status status = slice->handle->start(args);
    if (!status.ok()) slice->handle.reset();
    return status;
  }

  Status end_call(const Runner& call, Slice* slice) {
    moves_ += slice->handle->moves() + 1;
    if (args_.trace != nullptr) tell_of_call(call, slice->number, slice->began);
    slice->handle.reset();
    return call.data == StepData::kStaged ? slice->staging.copy_up() : Status();
  }

  void tell_of_call(const Runner& call, std::size_t slice, Trace::Clock::time_point began) const {
    std::string what = std::string(call.group.context().name()) + "_" +
                       roda_collective_name(static_cast<std::int32_t>(call.call.program->collective));
    std::transform(what.begin(), what.end(), what.begin(), [](unsigned char c) { return std::toupper(c); });
    args_.trace->add(std::move(what), static_cast<int>(call.stage()), slice, began);
  }

  std::string name_;
  const ExecuteOptions& execute_;
  ComposedOptions options_;
  Layout layout_;
  std::vector<Runner> calls_;
  std::vector<TransportGroup*> on_device_;  // that work on the device's memory, and may prepare for the memory there
  std::span<const Op> tail_;                // copies after the last call
  Pipeline<Slice> slices_;
  std::deque<OnStream> on_stream_;
  StartOrder order_;
  Staging whole_;  // of data on a device for which all works in host memory
  bool is_staged_ = false;
  Phase phase_ = Phase::kIdle;
  StageArgs args_;           // in host memory, if it is staged
  std::uint64_t moves_ = 0;  // of the calls that have ended, and one for each of them and for each wait for copies
};

}  // namespace

std::unique_ptr<Stage> make_composed_stage(std::string name, std::shared_ptr<const Program> program,
                                           const std::vector<TransportGroup*>& groups, const ExecuteOptions& execute,
                                           ComposedOptions options) {
  return std::make_unique<ComposedStage>(std::move(name), std::move(program), groups, execute, std::move(options));
}

}  // namespace roda::execute
