// One launch on its way through this rank: buffers in, stage, buffers out, completions.
//
// The work of one in host memory has been done when its stage has ended. On a device everything is put on one stream:
// the wait for the tensors' producers, packing, the collective where its transport works on the device's memory,
// unpacking, and an event behind it all.
//
// Owned by the holder of the baton. Pooled: a run is used again for later launches.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/engine/fusion_buffer.h"
#include "core/engine/operation.h"
#include "core/engine/planner.h"
#include "core/engine/set_runtime.h"
#include "core/execute/device_queue.h"
#include "core/execute/pack.h"
#include "core/execute/stage_pool.h"
#include "core/negotiate/negotiator.h"

namespace roda::engine {

// Launches of one process set that run at once: what the transports' groups are divided among.
inline constexpr std::uint32_t kLaunchesInFlight = 2;

class LaunchRun {
 public:
  LaunchRun();
  // Operations of this rank, one per tensor of the launch; null where this rank joined and supplies zeros. `queue`:
  // where the tensors lie, and the stream for the work on them.
  void begin(negotiate::Launch launch, std::vector<Operation*> operations, SetRuntime* set, std::uint32_t slot,
             const execute::DeviceQueue& queue);

  // Prepares and starts the stage when its group is ready; *started stays false until then.
  Status start(Planner* planner, Contexts* contexts, bool* started);
  // One bounded step. *done: outputs are in place, or the status says why not.
  Status advance(bool* done);
  void abort(const Status& cause);
  // After an error: no access to the buffers can follow any more.
  bool quiesced();

  const negotiate::Launch& launch() const { return launch_; }
  std::vector<Operation*>& operations() { return operations_; }
  // All work lies on the device's stream, and an event behind it: whoever uses that stream's order needs to wait no
  // longer. The operations carry the event.
  bool lies_on_stream() const { return completion_ != nullptr; }
  // The operations have been told of their end; the run goes on without them.
  void forget_operations() { std::fill(operations_.begin(), operations_.end(), nullptr); }
  SetRuntime* set() const { return set_; }
  bool started() const { return stage_ != nullptr || local_; }
  // Its groups have room for one launch at a time, or tell launches apart by their order alone.
  bool needs_whole_group() const { return needs_whole_group_; }
  bool is_on_device() const { return !queue_.is_host(); }
  // It starts collectives on a device when its peers' data have come, so that what else started there meanwhile would
  // be in another order on every rank.
  bool needs_whole_device() const { return is_on_device() && needs_whole_device_; }
  std::uint64_t moves() const { return stage_ == nullptr ? 0 : stage_->moves(); }
  std::string describe() const;
  std::string activity() const;  // for the timeline: "<TRANSPORT>_ALLREDUCE"
  void finish();                 // gives the stage back
  // The group, which this launch does not use, is about to go.
  void forget(execute::TransportGroup& group);

  bool broken = false;  // its stage ended with an error; what is left is to give its buffers back

  // Deadline bookkeeping of the engine.
  std::uint64_t seen_moves = 0;
  std::chrono::steady_clock::time_point moved_at{};

 private:
  const negotiate::Agreed& head() const { return *launch_.tensors.front(); }
  bool reduces_all() const { return collective_ == RODA_ALLREDUCE || collective_ == RODA_ADASUM_ALLREDUCE; }
  bool fused() const { return launch_.tensors.size() > 1; }
  // Of a plan with one stage: where fusion buffers come from; null for compositions.
  execute::TransportGroup* group() const { return pools_.size() == 1 ? &pools_.front()->group() : nullptr; }
  double prescale() const;
  double postscale() const;
  Status find_plan(Planner* planner, const Plan** plan);
  SetRuntime::Use use_of(const Plan& plan, int root) const { return {plan.id, root, devices_}; }
  Status find_pools(const Plan& plan, int root, Contexts* contexts, bool* ready);
  // How stages on devices get at the data (launch_device.cc).
  std::vector<execute::StepData> find_data(const Plan& plan) const;
  bool goes_direct(const PlanStage& stage, execute::StagePool* pool) const;
  void find_groups_on_device();
  bool works_directly(const Plan& plan) const;
  Status acquire(const Plan& plan, int root);
  Status make_stage(const Plan& plan, int root, std::unique_ptr<execute::Stage>* stage);
  Status ensure_fused(std::size_t bytes);
  Status wait_for_producers();
  Status end_on_stream();
  Status prepare(execute::StageArgs* args);
  Status prepare_allreduce(execute::StageArgs* args);
  Status prepare_zeros(execute::StageArgs* args);
  bool is_scattered_adasum(const Plan& plan) const;
  std::vector<std::int32_t> own_host() const;
  Status make_adasum(const Plan& plan, std::unique_ptr<execute::Stage>* stage) const;
  std::unique_ptr<execute::Stage> make_composed(const Plan& plan, int root) const;
  void lay_out_bucket();
  Status prepare_allgather(execute::StageArgs* args);
  Status prepare_alltoall(execute::StageArgs* args);
  Status prepare_reducescatter(execute::StageArgs* args);
  Status prepare_broadcast(execute::StageArgs* args);
  // The same for several tensors in one buffer (launch_bucket.cc).
  Status prepare_bucket(execute::StageArgs* args);
  Status pack_allgather(execute::StageArgs* args);
  Status pack_reducescatter(execute::StageArgs* args);
  Status pack_broadcast(execute::StageArgs* args);
  Status unpack_bucket();
  execute::BucketTensor member(std::size_t index) const;
  std::size_t shape_result(std::size_t index);
  bool is_root() const { return head().root == set_->options().ranks[static_cast<std::size_t>(set_->options().rank)]; }
  Status allocate_result(Operation* op, std::size_t bytes);
  Status run_locally();
  Status finish_outputs();
  Status copy(void* to, const void* from, std::size_t bytes) const { return queue_.copy(to, from, bytes); }
  Status scale(void* data, std::size_t count, double factor) const {
    return queue_.scale(data, count, head().dtype, factor);
  }

  negotiate::Launch launch_;
  std::vector<Operation*> operations_;
  SetRuntime* set_ = nullptr;
  std::uint32_t slot_ = 0;
  std::vector<execute::StagePool*> pools_;  // of the plan's stages; null where this rank is alone
  PlanQuery query_;
  const Plan* plan_ = nullptr;
  std::vector<execute::StepData> data_;  // of the plan's stages, where the tensors lie on devices
  bool needs_whole_group_ = false;
  bool needs_whole_device_ = false;
  execute::StageHandle stage_;
  bool local_ = false;  // a set of one rank: nothing travels
  execute::DeviceQueue queue_;
  std::string devices_;  // of all members, in words; "" in host memory
  // What is done: an Adasum of one host's devices is their average.
  int collective_ = RODA_ALLREDUCE;
  int wanted_op_ = RODA_SUM;
  bool has_groups_ = false;  // they are connected
  int op_ = RODA_SUM;        // as the stages know it: an average only where the transport has it
  bool has_ended_ = false;   // the stage
  std::shared_ptr<execute::DeviceEvent> completion_;
  std::shared_ptr<execute::DeviceEvent> quiet_;      // after an error: behind what the stream holds
  std::vector<execute::TransportGroup*> on_device_;  // of the plan's stages: they work on the device's memory
  FusionBuffer fused_;
  FusionBuffer zeros_;  // of a device, in place of a tensor that this rank doesn't have
  execute::Bucket bucket_;
  bool bucket_given_ = false;  // the stage packs, scales and unpacks by itself
  std::vector<execute::BucketTensor> members_;
  std::vector<std::size_t> begins_;  // Adasum: of the tensors in the buffer, in elements
  std::vector<std::size_t> counts_;  // of a bucket's tensors: [tensors][ranks] elements
  void* unpacked_from_ = nullptr;    // where in the fusion buffer a bucket's results lie
  std::vector<std::size_t> send_counts_;
  std::vector<std::size_t> recv_counts_;
  std::vector<std::size_t> all_counts_;  // of a composed alltoall
};

// What a sum over `members` ranks is multiplied by for their average. Whole numbers are truncated after that: a factor
// that came out a little too small would turn 49 / 49 into 0, so it is the next larger one then.
double averaging_factor(int dtype, double postscale, int members);

// Rows of a reduce-scatter that member `rank` of `size` keeps: as even as possible, the first ones one more.
std::int64_t reducescatter_rows(std::int64_t rows, int size, int rank);

}  // namespace roda::engine
