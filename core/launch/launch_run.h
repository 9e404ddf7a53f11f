// One launch on its way through this rank: buffers in, stage, buffers out, completions.
//
// The work of one in host memory has been done when its stage has ended. On a device everything is put on one stream:
// the wait for the tensors' producers, packing, the collective where its transport works on the device's memory,
// unpacking, and an event behind it all.
//
// Owned by the holder of the baton. Pooled: a run is used again for later launches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/execute/device_queue.h"
#include "core/execute/stage.h"
#include "core/launch/payload.h"
#include "core/launch/set_runtime.h"
#include "core/negotiate/negotiator.h"
#include "core/plan/planner.h"
#include "core/submit/operation.h"
#include "plugins/base/coarse_clock.h"

namespace roda::engine {

// Launches of one process set that run at once: what the transports' groups are divided among.
inline constexpr std::uint32_t kLaunchesInFlight = 2;

class LaunchRun {
 public:
  // Operations of this rank, one per tensor of the launch; null where this rank joined and supplies zeros. `queue`:
  // where the tensors lie, and the stream for the work on them, with its buffers; null in host memory. Launch and
  // operations are swapped for those of the launch before, which are empty.
  void begin(negotiate::Launch& launch, std::vector<Operation*>& operations, SetRuntime* set, std::uint32_t slot,
             const execute::DeviceQueue& queue, StreamBuffers* of_stream);

  // Chooses the plan and asks for its groups; to be called again until they are *ready, formed.
  Status connect(Planner* planner, Contexts* contexts, bool* ready);
  // Prepares and starts the stage.
  Status start();
  void tell_early(bool on) { tells_early_ = on; }
  // Before the start: whether it is noted what its parts take.
  void note_parts(bool on) { notes_parts_ = on; }
  const execute::Trace& trace() const { return trace_; }
  // One bounded step. *done: outputs are in place, or the status says why not.
  Status advance(bool* done);
  void abort(const Status& cause) {
    if (stage_ != nullptr) stage_->abort(cause);
  }
  // After an error: no access to the buffers can follow any more.
  bool quiesced();

  const negotiate::Launch& launch() const { return launch_; }
  std::vector<Operation*>& operations() { return operations_; }
  const std::vector<Operation*>& operations() const { return operations_; }
  // All work lies on the device's stream, with an event behind it, which the operations carry: work that is put on that
  // stream from now on comes after it.
  bool lies_on_stream() const { return completion_ != nullptr; }
  // The operations have been told of their end; the run goes on without them.
  void forget_operations() {
    std::ranges::fill(operations_, nullptr);
    has_told_ = true;
  }
  // Whether operations are told of their end when their work lies on the stream.
  bool tells_early() const { return tells_early_; }
  bool has_told() const { return has_told_; }
  SetRuntime* set() const { return set_; }
  bool is_connected() const { return has_groups_; }
  bool started() const { return stage_ != nullptr || is_local_; }
  SetRuntime::Needs needs() const {
    if (is_local_) return {.stream_order = is_on_device()};
    return bound_.route == nullptr ? SetRuntime::Needs() : bound_.route->needs;
  }
  // The device's stream that the launch works on; null in host memory.
  const void* stream() const { return queue_.stream; }
  bool is_on_device() const { return !queue_.is_host(); }
  std::uint64_t moves() const { return stage_ == nullptr ? 0 : stage_->moves(); }
  std::string describe() const;
  std::string activity() const;    // for the timeline: "<TRANSPORT>_ALLREDUCE"
  std::string what_runs() const;   // likewise, once it is started
  std::size_t bytes() const;       // of this rank's tensors
  const Formats& formats() const;  // of messages, once it is started
  void finish();                   // gives the stage back
  // The group, which this launch does not use, is about to go.
  void forget(execute::TransportGroup& group) { payload_.forget(group); }

  bool broken = false;  // its stage ended with an error; what is left is to give its buffers back

  // Deadline bookkeeping of the engine.
  std::uint64_t seen_moves = 0;
  CoarseClock::time_point moved_at{};
  std::uint32_t looks = 0;  // for what its groups still lack

 private:
  const negotiate::Agreed& head() const { return *launch_.tensors.front(); }
  Status wait_for_producers();
  Status end_on_stream();

  // --- its plan (launch_plan.cc) ---
  Status find_plan(Planner* planner);
  Status find_groups(Contexts* contexts, SetRuntime::Route* route) const;
  execute::StepData find_data(const PlanStage& stage, execute::TransportGroup* group) const;
  SetRuntime::Needs find_needs(const SetRuntime::Route& route) const;
  // A stage that runs the plan. Its groups are formed.
  Status make_stage(std::unique_ptr<execute::Stage>* stage) const;
  const Plan& plan() const { return *bound_.plan; }
  // One collective over its own group, as a stage of that group runs it.
  bool is_plain() const { return !plan().is_composed() && !plan().staged; }
  // By stage of the plan; null where this rank has no part. Empty: they are not formed.
  std::span<execute::TransportGroup* const> groups() const {
    return bound_.route == nullptr ? std::span<execute::TransportGroup* const>() : bound_.route->groups;
  }
  // The group of a plan with one stage; null for compositions.
  execute::TransportGroup* only_group() const { return groups().size() == 1 ? groups().front() : nullptr; }

  negotiate::Launch launch_;
  std::vector<Operation*> operations_;
  SetRuntime* set_ = nullptr;
  std::uint32_t slot_ = 0;
  execute::DeviceQueue queue_;
  StreamBuffers* of_stream_ = nullptr;
  SetRuntime::Binding bound_;
  Payload payload_;
  execute::StageHandle stage_;
  execute::Trace trace_;
  bool notes_parts_ = false;
  bool is_local_ = false;    // a set of one rank: nothing travels
  bool has_groups_ = false;  // they are connected, where there are any
  bool has_ended_ = false;   // the stage
  bool tells_early_ = false;
  bool has_told_ = false;  // the operations, of their end
  std::vector<Producer*> producers_;
  std::shared_ptr<execute::DeviceEvent> completion_;
  std::shared_ptr<execute::DeviceEvent> quiet_;  // after an error: behind what the stream holds
};

}  // namespace roda::engine
