#include "transports/shm/ring.h"

#include <algorithm>

namespace roda::shm {

// With the filler that is needed when the record doesn't fit before the end.
std::size_t RingProducer::bytes_needed(std::size_t payload) const {
  std::size_t wanted = record_bytes(payload);
  std::size_t to_end = bytes_ - tail_ % bytes_;
  return wanted <= to_end ? wanted : to_end + wanted;
}

bool RingProducer::has_bytes(std::size_t bytes) {
  if (tail_ + bytes - head_seen_ <= bytes_) return true;
  head_seen_ = header_->head.load(std::memory_order_acquire);
  return tail_ + bytes - head_seen_ <= bytes_;
}

bool RingProducer::has_room(std::size_t payload) { return has_bytes(bytes_needed(payload)); }

Record* RingProducer::reserve(std::size_t payload) {
  std::size_t needed = bytes_needed(payload);
  if (!has_bytes(needed)) return nullptr;
  std::size_t filler = needed - record_bytes(payload);
  if (filler > 0) {
    auto skip = reinterpret_cast<Record*>(data_ + tail_ % bytes_);
    skip->kind = RecordKind::kSkip;
    skip->payload = static_cast<std::uint32_t>(filler - sizeof(Record));
    tail_ += filler;
  }
  auto record = reinterpret_cast<Record*>(data_ + tail_ % bytes_);
  record->payload = static_cast<std::uint32_t>(payload);
  return record;
}

void RingProducer::publish(const Record* record) {
  tail_ += record_bytes(record->payload);
  header_->tail.store(tail_, std::memory_order_release);
}

const Record* RingConsumer::front() {
  while (!empty()) {
    auto record = reinterpret_cast<const Record*>(data_ + head_ % bytes_);
    if (record->kind != RecordKind::kSkip || !is_sane(*record)) return record;
    pop(*record);
  }
  return nullptr;
}

bool RingConsumer::is_sane(const Record& record) const {
  const std::uint64_t written = header_->tail.load(std::memory_order_acquire) - head_;
  return record_bytes(record.payload) <= std::min(bytes_ - head_ % bytes_, written);
}

void RingConsumer::pop(const Record& record) {
  head_ += record_bytes(record.payload);
  header_->head.store(head_, std::memory_order_release);
}

}  // namespace roda::shm
