// The tensors of one launch as a stage works on them, in and out: where they lie, or several packed in one buffer, with
// the factors before and after a reduction.
//
// Owned by the holder of the baton. Its buffers are kept for later launches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/execute/device_queue.h"
#include "core/execute/memory.h"
#include "core/execute/pack.h"
#include "core/execute/stage.h"
#include "core/launch/set_runtime.h"
#include "core/negotiate/negotiator.h"
#include "core/submit/operation.h"

namespace roda::engine {

// Where launches are packed, and what else of their data must lie in other places than the tensors.
struct PayloadBuffers {
  execute::WorkMemory fused;  // where several tensors travel as one, or changed ones
  execute::WorkMemory zeros;  // of a device, in place of a tensor that this rank doesn't have
  // The group, which uses neither, is about to go.
  void forget(execute::TransportGroup& group) {
    fused.forget(group);
    zeros.forget(group);
  }
};

// The buffers of one stream of a device, whose order keeps the launches apart that use them: by the group that lends
// the memory; null: no group does. Lent memory must grow on all ranks of a group for the same launches.
using StreamBuffers = std::map<execute::TransportGroup*, PayloadBuffers>;

class Payload {
 public:
  // The members of the process set, and which of them this rank is.
  struct Membership {
    std::span<const std::int32_t> ranks;
    int rank = 0;
  };
  // How the stage gets at the data.
  struct Means {
    execute::TransportGroup* group = nullptr;             // that fusion buffers come from; null: from nobody's
    std::span<execute::TransportGroup* const> on_device;  // they work on the device's memory
    bool takes_buckets = false;                           // packs, scales and unpacks by itself
    bool needs_all_counts = false;                        // of an alltoall: from each rank to each
    std::size_t grain = execute::kLine;                   // bytes: tensors of a bucket begin on multiples of it
    WireMemory* wire = nullptr;                           // null: no message has a wire format
    bool feeds_back = false;                              // what messages lose
    PayloadBuffers* buffers = nullptr;                    // of its stream; null: its own
  };
  // Takes a launch on: operations of this rank, one per tensor; null where it joined and supplies zeros. All of that
  // outlives the launch; `queue` is where the tensors lie, and the stream for the work on them.
  void begin(const negotiate::Launch& launch, std::vector<Operation*>* operations, const Membership& members,
             const execute::DeviceQueue& queue);
  // Fills input, output and counts of what the stage works on, allocates results, and packs what travels in a buffer.
  Status prepare(const Work& work, const Means& means, execute::StageArgs* args);
  // After the stage: results in their places, scaled.
  Status finish();
  // In a set of one every collective is a copy and the factors: this in place of prepare() and finish().
  Status run_locally(const Work& work);
  // On a device: when the launch no longer uses the buffers.
  void used_until(const std::shared_ptr<execute::DeviceEvent>& event);
  // The group, which this launch does not use, is about to go.
  void forget(execute::TransportGroup& group) {
    own_.forget(group);
    sums_.forget(group);
  }
  // `trace` is told when the payload packs and unpacks; null: none is.
  void tell(execute::Trace* trace) { bucket_.tell(trace); }

 private:
  const negotiate::Agreed& head() const { return *launch_->tensors.front(); }
  bool reduces_all() const { return work_.collective == RODA_ALLREDUCE || work_.collective == RODA_ADASUM_ALLREDUCE; }
  std::size_t count() const { return static_cast<std::size_t>(head().elements(0)); }
  bool is_fused() const { return launch_->tensors.size() > 1; }
  int size() const { return static_cast<int>(members_.ranks.size()); }
  std::size_t self() const { return static_cast<std::size_t>(members_.rank); }
  std::size_t element() const { return roda_dtype_size(head().dtype); }
  bool is_root() const { return head().root == members_.ranks[self()]; }
  // The sum is divided by this. A part of the division is a factor before the sum, which so stays in the dtype's range.
  int divisor() const;
  double prescale() const;
  double postscale() const;
  execute::WorkMemory& fused() { return (means_.buffers == nullptr ? own_ : *means_.buffers).fused; }
  execute::WorkMemory& zeros() { return (means_.buffers == nullptr ? own_ : *means_.buffers).zeros; }
  Status reserve(execute::WorkMemory* buffer, std::size_t bytes, execute::TransportGroup* lender) const;
  Status reserve_fused(std::size_t bytes);
  // The memory that a stage is told of: null for a device's, of which the groups know since it was registered.
  const roda_memory* memory_of(const execute::WorkMemory& buffer) const {
    return queue_.is_host() ? buffer.memory() : nullptr;
  }
  Status allocate_result(Operation* op, std::size_t bytes);
  Status find_result(Operation* op, std::size_t bytes);
  Status prepare_values(execute::StageArgs* args);
  Status spread_out(execute::StageArgs* args);
  Status prepare_allreduce(execute::StageArgs* args);
  void lay_out_bucket();
  void list_wire_tensors(bool are_laid_out, execute::StageArgs* args);
  Status prepare_one(Operation* op, execute::StageArgs* args);
  Status prepare_alltoall(Operation* op, execute::StageArgs* args);
  Status scale_input(execute::StageArgs* args);
  // Several tensors in one buffer, of all collectives but allreduce and Adasum.
  Status prepare_bucket(execute::StageArgs* args);
  Status pack_blocks(execute::StageArgs* args);
  Status pack_broadcast(execute::StageArgs* args);
  std::size_t shape_result(std::size_t index);
  Status copy(void* to, const void* from, std::size_t bytes) const { return queue_.copy(to, from, bytes); }
  Status scale(void* data, std::size_t count, double factor) const {
    return queue_.scale(data, count, head().dtype, factor);
  }

  const negotiate::Launch* launch_ = nullptr;
  std::vector<Operation*>* operations_ = nullptr;
  Membership members_;
  execute::DeviceQueue queue_;
  Work work_;
  Means means_;
  PayloadBuffers own_;
  execute::Bucket bucket_;
  bool bucket_given_ = false;
  std::vector<execute::BucketTensor> tensors_;
  std::vector<std::size_t> begins_;  // of the tensors in the buffer, in elements
  std::vector<execute::WireTensor> wire_tensors_;
  std::vector<std::size_t> counts_;  // of a gathering's or scatter's tensors: [tensors][ranks] elements
  void* unpacked_from_ = nullptr;    // where in the fusion buffer a bucket's results lie
  std::vector<std::size_t> send_counts_, recv_counts_, all_counts_;
  // The sums of averages that are spread, and the place of each result; null: not on this rank.
  execute::WorkMemory sums_;
  std::vector<std::size_t> sum_counts_;
  const void* sums_at_ = nullptr;
  void* averages_ = nullptr;
  std::size_t averaged_ = 0;
};

// Rows of a reduce-scatter that member `rank` of `size` keeps: as even as possible, the first ones one more.
std::int64_t reducescatter_rows(std::int64_t rows, int size, int rank);

}  // namespace roda::engine
