// What gives tensors on devices their values: the program's streams, each up to a point.
#pragma once

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include "core/execute/device_queue.h"
#include "core/negotiate/bucket.h"
#include "plugins/base/mutex.h"
#include "plugins/base/status.h"

namespace roda::engine {

// Of a tensor on a device: those of one kind share buckets.
struct TensorKind {
  std::int32_t set = 0;
  std::uint64_t number = 0;  // negotiate::kind_of()
  static TensorKind of(const negotiate::Request& request) { return {request.set, negotiate::kind_of(request)}; }
  auto operator<=>(const TensorKind&) const = default;
};

// A point in a stream. Any thread.
class Producer {
 public:
  explicit Producer(const execute::DeviceQueue& queue) : queue_(queue) {}

  const void* stream() const { return queue_.stream; }
  // Of the last tensor, as they are submitted: of two of one stream the one with the larger number is the later point.
  std::uint64_t number() const { return number_.load(std::memory_order_relaxed); }
  // Behind all that the stream holds now, unless it was marked before.
  Status mark();
  // Makes a stream of the engine's wait for it; marks it first.
  Status hold(void* stream);

 private:
  const execute::DeviceQueue queue_;
  friend class Producers;
  std::atomic<std::uint64_t> number_{0};
  Mutex mutex_;
  std::shared_ptr<execute::DeviceEvent> event_ RODA_GUARDED_BY(mutex_);
};

// One point for all tensors that are likely to travel together, if their streams stay what they are: marked when the
// last of them is submitted. That is foretold as negotiate::FillingBuckets will cut them if all ranks submit in one
// order; where it fails, the point is marked when their bucket starts, and the bucket waits for what else the stream
// holds by then.
//
// Any thread; locks itself.
class Producers {
 public:
  explicit Producers(const negotiate::BucketRules& rules) : rules_(rules) {}

  // Of a tensor that is about to be submitted. `queue`: its device, and the program's stream. `may_wait` false: its
  // point is marked now.
  Status add(const TensorKind& kind, const execute::DeviceQueue& queue, std::size_t bytes, bool may_wait,
             std::shared_ptr<Producer>* producer);
  // A thread waits for a tensor of the kind: the next one begins another bucket.
  Status end(const TensorKind& kind);

 private:
  struct Filling {
    std::shared_ptr<Producer> producer;  // not marked; null: the next tensor brings one
    std::size_t bytes = 0;               // of its tensors
  };
  const negotiate::BucketRules rules_;
  Mutex mutex_;
  std::uint64_t count_ RODA_GUARDED_BY(mutex_) = 0;
  std::map<std::tuple<TensorKind, std::int32_t, void*>, Filling> filling_ RODA_GUARDED_BY(mutex_);  // device, stream
};

}  // namespace roda::engine
