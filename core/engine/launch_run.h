// One launch on its way through this rank: buffers in, stage, buffers out, completions.
//
// Owned by the holder of the baton. Pooled: a run is used again for later launches.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "core/engine/operation.h"
#include "core/engine/planner.h"
#include "core/engine/set_runtime.h"
#include "core/execute/pack.h"
#include "core/execute/stage_pool.h"
#include "core/negotiate/negotiator.h"

namespace roda::engine {

// Launches of one process set that run at once: what the transports' groups are divided among.
inline constexpr std::uint32_t kLaunchesInFlight = 2;

// A buffer that outlives its launch, taken from the group's transport where it hands out memory.
class FusionBuffer {
 public:
  FusionBuffer() = default;
  FusionBuffer(const FusionBuffer&) = delete;
  FusionBuffer& operator=(const FusionBuffer&) = delete;
  ~FusionBuffer() { release(); }
  // At least `bytes`, from `group` when it has memory of its own. Contents are lost.
  Status ensure(execute::TransportGroup* group, std::size_t bytes);
  void release();
  roda_memory* memory() { return &memory_; }
  void* data() const { return memory_.address; }
  bool is_transports() const { return group_ != nullptr; }

 private:
  execute::TransportGroup* group_ = nullptr;
  roda_memory memory_{};
};

class LaunchRun {
 public:
  LaunchRun();
  // Operations of this rank, one per tensor of the launch; null where this rank joined and supplies zeros.
  void begin(negotiate::Launch launch, std::vector<Operation*> operations, SetRuntime* set, std::uint32_t slot);

  // Prepares and starts the stage when its group is ready; *started stays false until then.
  Status start(Planner* planner, Contexts* contexts, bool* started);
  // One bounded step. *done: outputs are in place, or the status says why not.
  Status advance(bool* done);
  void abort(const Status& cause);
  // After an error: no access to the buffers can follow any more.
  bool quiesced();

  const negotiate::Launch& launch() const { return launch_; }
  std::vector<Operation*>& operations() { return operations_; }
  SetRuntime* set() const { return set_; }
  bool started() const { return stage_ != nullptr || local_; }
  // Its groups have room for one launch at a time, or tell launches apart by their order alone.
  bool needs_whole_group() const { return needs_whole_group_; }
  std::uint64_t moves() const { return stage_ == nullptr ? 0 : stage_->moves(); }
  std::string describe() const;
  std::string activity() const;  // for the timeline: "<TRANSPORT>_ALLREDUCE"
  void finish();                 // gives the stage back
  void drop_buffers() { fused_.release(); }

  bool broken = false;  // its stage ended with an error; what is left is to give its buffers back

  // Deadline bookkeeping of the engine.
  std::uint64_t seen_moves = 0;
  std::chrono::steady_clock::time_point moved_at{};

 private:
  const negotiate::Agreed& head() const { return *launch_.tensors.front(); }
  bool reduces_all() const { return head().collective == RODA_ALLREDUCE || head().collective == RODA_ADASUM_ALLREDUCE; }
  bool fused() const { return launch_.tensors.size() > 1; }
  // Of a plan with one stage: where fusion buffers come from; null for compositions.
  execute::TransportGroup* group() const { return pools_.size() == 1 ? &pools_.front()->group() : nullptr; }
  double prescale() const;
  double postscale() const;
  std::size_t plan_bytes() const;
  Status find_pools(const Plan& plan, int root, Contexts* contexts, bool* ready);
  Status acquire(const Plan& plan, int root);
  Status prepare(execute::StageArgs* args);
  Status prepare_allreduce(execute::StageArgs* args);
  Status make_adasum(const Plan& plan, std::unique_ptr<execute::Stage>* stage) const;
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
  Status scale(void* data, std::size_t count, double factor);

  negotiate::Launch launch_;
  std::vector<Operation*> operations_;
  SetRuntime* set_ = nullptr;
  std::uint32_t slot_ = 0;
  std::vector<execute::StagePool*> pools_;  // of the plan's stages; null where this rank is alone
  bool needs_whole_group_ = false;
  execute::StageHandle stage_;
  bool local_ = false;  // a set of one rank: nothing travels
  FusionBuffer fused_;
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

// Host memory; nothing when both are the same.
Status copy(void* dst, const void* src, std::size_t bytes);

// What a sum over `members` ranks is multiplied by for their average. Whole numbers are truncated after that: a factor
// that came out a little too small would turn 49 / 49 into 0, so it is the next larger one then.
double averaging_factor(int dtype, double postscale, int members);

// Rows of a reduce-scatter that member `rank` of `size` keeps: as even as possible, the first ones one more.
std::int64_t reducescatter_rows(std::int64_t rows, int size, int rank);

}  // namespace roda::engine
