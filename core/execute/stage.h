// The one interface of everything a plan runs: programs over a transport's messages, signals and windows, or its own
// collectives, and compositions of these.
//
// Threads: the holder of the engine's baton. Nothing blocks.
#pragma once

#include <roda/abi/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/plan/slices.h"
#include "algorithms/schedule/program.h"
#include "core/execute/trace.h"
#include "core/execute/wire.h"
#include "plugins/base/status.h"

namespace roda::execute {

class Bucket;
struct DeviceQueue;

class TransportGroup;

// The sizes that shape execution.
struct ExecuteOptions : plan::SliceSizes {
  std::size_t far_bytes = 2 << 10;   // slices from here on are stored for far cores where peers are far
  std::size_t test_bytes = 1 << 20;  // data moved by one test()
};

// The arguments of one run of a stage. Everything but the pointers, the memory objects and `send_counts` is equal on
// all ranks of the group. The arrays and memory objects live until the stage is done; the stage copies the rest.
struct StageArgs {
  std::int32_t collective = RODA_ALLREDUCE;  // roda_collective: the stage's
  std::int32_t dtype = RODA_FLOAT32;
  std::int32_t op = RODA_SUM;  // SUM, MIN, MAX or PRODUCT; averages are the caller's scaling
  std::int32_t root = 0;       // group rank
  // allreduce: input may equal output. broadcast: output on every rank; the root's input is copied first when it is
  // neither null nor equal to output. reduce: output on the root, which may be its input, null elsewhere. allgather:
  // this rank's elements. barrier: null.
  const void* input = nullptr;
  void* output = nullptr;
  // The objects that input and output lie in; null for plain host memory.
  const roda_memory* input_memory = nullptr;
  const roda_memory* output_memory = nullptr;
  // For a stage that takes_buckets(), in place of input and output: tensors laid out for an allreduce of `count`
  // elements in host memory. They are packed, scaled, reduced and unpacked slice by slice, so no fusion buffer is
  // needed. Lives until the stage is done; belongs to no other stage meanwhile.
  Bucket* bucket = nullptr;
  double prescale = 1.0;  // of the bucket
  double postscale = 1.0;
  std::size_t count = 0;  // allreduce, broadcast, reduce: elements; reduce-scatter: elements of input
  const std::size_t* send_counts = nullptr;  // [size] alltoall: elements to each rank
  const std::size_t* recv_counts = nullptr;  // [size] allgather, alltoall: from each rank; reduce-scatter: each rank's
  // alltoall: no entry of any rank's counts is larger. One-sided alltoalls need it, others ignore it.
  std::size_t max_count = 0;
  bool is_even = false;  // alltoall: all ranks' counts are equal; false also where that isn't known
  // Adasum: the elements at which the tensors of the buffer begin, the first at 0, ascending. Zeros between tensors
  // count as part of the one before.
  const std::size_t* tensor_begins = nullptr;
  std::size_t tensors = 0;
  WireData wire;                            // allreduce, where messages have a wire format
  const std::size_t* all_counts = nullptr;  // [size * size] alltoall that is composed: from each rank to each
  std::uint64_t launch = 0;                 // increasing
  std::uint32_t stage = 0;                  // of the plan and slice of a composition, < Tag::kMaxStages
  // Number of the in-flight instance: no two stages that run on one group at a time share a slot, and the stages of a
  // slot start in the same order on every rank. < TransportGroup::slots() for one-sided schedules, ignored by others.
  std::uint32_t slot = 0;
  std::uint64_t generation = 0;
  // Where input and output lie, and the stream on which the work goes; null: host memory. Lives until the stage is
  // done.
  const DeviceQueue* queue = nullptr;
  // Told how long the stage's parts took; null: nobody asks. Lives until the stage is done.
  Trace* trace = nullptr;
};

// The in-flight operation that a message belongs to. Tags in flight never collide: the fields wrap far beyond the
// numbers that can be outstanding.
struct Tag {
  std::uint64_t generation = 0;
  std::uint64_t launch = 0;
  std::uint32_t stage = 0;
  std::uint32_t lane = 0;
  std::uint64_t slice = 0;

  // Stages of the slices of a composition that are under way.
  static constexpr std::uint32_t kMaxStages = 1u << 6;
  static_assert(plan::kMostStages * plan::kLevelSlicesInFlight <= kMaxStages);

  std::uint64_t packed() const {
    return (generation & 0xff) << 56 | (launch & 0xffffff) << 32 | std::uint64_t{stage % kMaxStages} << 26 |
           std::uint64_t{lane & 0xff} << 18 | (slice & 0x3ffff);
  }
};

class Stage;

// A stage in use. It goes back to whoever keeps it, done or never started, when the handle goes.
struct GiveBack {
  void operator()(Stage* stage) const;
};
using StageHandle = std::unique_ptr<Stage, GiveBack>;

// One reusable run of a program. start, then test until done; then start again.
class Stage {
 public:
  explicit Stage(std::shared_ptr<const schedule::Program> program) : program_(std::move(program)) {}
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  virtual ~Stage() = default;

  const schedule::Program& program() const { return *program_; }

  // Whether StageArgs::bucket may be given.
  bool takes_buckets() const { return schedule::takes_buckets(*program_); }

  // Begins. The stage is idle or done. An error leaves it idle; nothing was sent.
  Status start(const StageArgs& args);

  // Does a bounded amount of work (about ExecuteOptions::test_bytes of data moved) and says whether the stage has
  // ended. OK with *done false: test again, after progress of the context. An error comes with *done true: by then the
  // group was aborted with it, no request of the stage is pending, and the output is undefined. Ask
  // TransportGroup::quiesced() before the buffers are given back.
  Status test(bool* done);

  // Whether all work of a running stage on a device lies on the stream, so that work that the caller puts there next
  // comes after it. The stage is still to be tested to its end.
  virtual bool is_on_stream() { return false; }

  // Ends the stage with `cause`: aborts the group; test() says when it is over.
  void abort(const Status& cause);

  // Grows whenever something moved: renews the deadline of the operation.
  virtual std::uint64_t moves() const = 0;

  // In words, the state that the stage waits in, for the stall report: "ring over gloo: recv from rank 3, step 4 of
  // 12".
  virtual std::string describe() const = 0;

 protected:
  bool is_running() const { return running_; }

 private:
  // start() and test() of a stage that has not failed. *done is false when advance() is called.
  virtual Status begin(const StageArgs& args) = 0;
  virtual Status advance(bool* done) = 0;
  // A stage that failed, or was aborted, is over when nothing that it started is pending: whether that is so.
  virtual void abort_groups(const Status& cause) = 0;
  virtual bool release() = 0;

  friend struct GiveBack;
  friend class Stages;

  const std::shared_ptr<const schedule::Program> program_;
  bool taken_ = false;  // by a user
  bool running_ = false;
  Status failure_;
};

// Stages that run alike, kept for reuse: none is built, and nothing allocated, where one has no user. Outlives its
// handles.
class Stages {
 public:
  // `make(&made)` makes one more.
  template <typename Make>
  Status take(const Make& make, StageHandle* stage) {
    auto free = std::ranges::find_if(stages_, [](const auto& kept) { return !kept->taken_; });
    if (free == stages_.end()) {
      std::unique_ptr<Stage> made;
      RODA_RETURN_IF_ERROR(make(&made));
      free = stages_.insert(free, std::move(made));
    }
    (*free)->taken_ = true;
    stage->reset(free->get());
    return {};
  }

 private:
  std::vector<std::unique_ptr<Stage>> stages_;
};

// A stage that runs an algorithm's program, or a transport's own collective, over a group. `group` and `options`
// outlive it. RODA_ERR_UNSUPPORTED: the transport lacks what the program needs.
Status make_stage(std::shared_ptr<const schedule::Program> program, TransportGroup& group,
                  const ExecuteOptions& options, std::unique_ptr<Stage>* stage);

// How a call gets at data on a device.
enum class StepData : std::uint8_t {
  kOnStream,  // it works there, on the launch's stream
  kStaged,    // in host memory; the data are copied there and back
  kDirect,    // it works there, but not on the stream
};

struct ComposedOptions {
  std::size_t slice_bytes = 1;  // equal on all ranks
  std::uint32_t launches = 1;   // that may be in flight on the groups at once; StageArgs::slot is below it
  std::vector<StepData> data;   // [stage of the plan] of data on a device; empty: it works in host memory
};

// A stage that runs a composition, each call over its group. `name`: for messages. `groups`: by stage of the plan; null
// where this rank calls nothing. They outlive it, as `execute` does.
std::unique_ptr<Stage> make_composed_stage(std::string name, std::shared_ptr<const schedule::Program> program,
                                           const std::vector<TransportGroup*>& groups, const ExecuteOptions& execute,
                                           ComposedOptions options);

}  // namespace roda::execute
