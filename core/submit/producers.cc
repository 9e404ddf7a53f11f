#include "core/submit/producers.h"

#include <cstdint>
#include <utility>

namespace roda::engine {

Status Producer::mark() {
  const MutexLock lock(mutex_);
  return event_ != nullptr ? Status() : execute::DeviceEvent::record(queue_, &event_);
}

Status Producer::hold(void* stream) {
  RODA_RETURN_IF_ERROR(mark());
  const MutexLock lock(mutex_);
  return event_->hold(stream);
}

Status Producers::add(const TensorKind& kind, const execute::DeviceQueue& queue, std::size_t bytes, bool may_wait,
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

Status Producers::end(const TensorKind& kind) {
  const MutexLock lock(mutex_);
  Status status;
  for (auto at = filling_.lower_bound({kind, INT32_MIN, nullptr});
       at != filling_.end() && std::get<TensorKind>(at->first) == kind; at = filling_.erase(at)) {
    if (at->second.producer != nullptr && status.ok()) status = at->second.producer->mark();
  }
  return status;
}

}  // namespace roda::engine
