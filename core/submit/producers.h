// Producers give tensors on devices their values: each is a stream of the program, up to a point.
#pragma once

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "core/execute/device_queue.h"
#include "core/negotiate/bucket.h"
#include "plugins/base/mutex.h"
#include "plugins/base/status.h"

namespace roda::engine {

// The kind of a tensor on a device: tensors of one kind share buckets.
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
  // The number of the last tensor, counted as they are submitted: of two producers of one stream, the one with the
  // larger number is the later point.
  std::uint64_t number() const { return number_.load(std::memory_order_relaxed); }
  // Behind all that the stream holds now, unless it was marked before.
  Status mark() {
    const MutexLock lock(mutex_);
    return event_ != nullptr ? Status() : execute::DeviceEvent::record(queue_, &event_);
  }

  // Makes a stream of the engine's wait for it; marks it first.
  Status hold(void* stream) {
    RODA_RETURN_IF_ERROR(mark());
    const MutexLock lock(mutex_);
    return event_->hold(stream);
  }

 private:
  const execute::DeviceQueue queue_;
  friend class Producers;
  std::atomic<std::uint64_t> number_{0};
  Mutex mutex_;
  std::shared_ptr<execute::DeviceEvent> event_ RODA_GUARDED_BY(mutex_);
};

// Gives tensors of one stream that will probably share a bucket one Producer, which is marked when the last of them is
// submitted. Producers predicts the buckets that negotiate::FillingBuckets cuts if all ranks submit in this order.
// Where the prediction fails, the Producer is marked when the bucket starts, and the bucket waits for later work of
// the stream, too.
//
// Any thread; locks itself.
class Producers {
 public:
  explicit Producers(const negotiate::BucketRules& rules) : rules_(rules) {}

  // Sets the producer of a tensor that is about to be submitted. `queue`: the tensor's device, and the program's
  // stream. `may_wait` false: the producer's point is marked now.
  Status add(const TensorKind& kind, const execute::DeviceQueue& queue, std::size_t bytes, bool may_wait,
             std::shared_ptr<Producer>* producer) {
    const MutexLock lock(mutex_);
    const auto [found, is_first] = filling_.try_emplace({kind, queue.number, queue.stream});
    Filling& filling = found->second;
    const bool is_alone = is_first || !may_wait || bytes > rules_.complete;
    if (!is_alone && filling.producer != nullptr && filling.bytes + bytes > rules_.threshold) {
      RODA_RETURN_IF_ERROR(std::exchange(filling.producer, nullptr)->mark());
    }
    if (!is_alone && filling.producer == nullptr) filling = {std::make_shared<Producer>(queue), 0};
    *producer = is_alone ? std::make_shared<Producer>(queue) : filling.producer;
    (*producer)->number_.store(++count_, std::memory_order_relaxed);
    if (is_alone) return (*producer)->mark();
    filling.bytes += bytes;
    return filling.bytes < rules_.complete ? Status() : std::exchange(filling.producer, nullptr)->mark();
  }

  // A thread waits for a tensor of the kind: the next one begins another bucket.
  Status end(const TensorKind& kind) {
    const MutexLock lock(mutex_);
    Status status;
    for (auto at = filling_.lower_bound({kind, INT32_MIN, nullptr});
         at != filling_.end() && std::get<TensorKind>(at->first) == kind; at = filling_.erase(at)) {
      if (at->second.producer != nullptr && status.ok()) status = at->second.producer->mark();
    }
    return status;
  }

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
