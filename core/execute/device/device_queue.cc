#include "core/execute/device/device_queue.h"

namespace roda::execute {

Status DeviceQueue::copy(void* dst, const void* src, std::size_t bytes) const {
  if (dst == src || bytes == 0) return {};
  roda_error error = make_error();
  return Status::from(device->copy(dst, src, bytes, stream, &error), error);
}

Status DeviceQueue::pack(void* buffer, const roda_pack_item* items, std::size_t count) const {
  if (count == 0) return {};
  roda_error error = make_error();
  return Status::from(device->pack(buffer, items, count, stream, &error), error);
}

Status DeviceQueue::unpack(const void* buffer, const roda_pack_item* items, std::size_t count) const {
  if (count == 0) return {};
  roda_error error = make_error();
  return Status::from(device->unpack(buffer, items, count, stream, &error), error);
}

Status DeviceQueue::scale(void* data, std::size_t count, int dtype, double factor) const {
  if (factor == 1.0 || count == 0) return {};
  roda_error error = make_error();
  return Status::from(device->scale(data, count, dtype, factor, stream, &error), error);
}

Status DeviceQueue::wait_for(const DeviceEvent* event) const {
  return event == nullptr ? Status() : event->hold(stream);
}

Status DeviceEvent::record(const DeviceQueue& queue, std::shared_ptr<DeviceEvent>* event) {
  roda_error error = make_error();
  void* made = nullptr;
  RODA_RETURN_IF_ERROR(Status::from(queue.device->event_record(queue.stream, &made, &error), error));
  event->reset(new DeviceEvent(queue.device, made));
  return {};
}

Status DeviceEvent::test(bool* over) const {
  roda_error error = make_error();
  const int code = device_->event_test(event_, &error);
  *over = code != RODA_IN_PROGRESS;
  return Status::from(code, error);
}

Status DeviceEvent::hold(void* stream) const {
  roda_error error = make_error();
  return Status::from(device_->event_wait(stream, event_, &error), error);
}

Status DeviceMemory::reserve(const DeviceQueue& queue, Place place, std::size_t bytes) {
  std::erase_if(outgrown_, [](const DeviceMemory& old) { return old.registrations_.can_clear(); });
  const bool same_device = device_ == queue.device && memory_.device == queue.number;
  if (memory_.address != nullptr && same_device && memory_.length >= bytes) return {};
  outgrow();
  const Status status = allocate(queue, place, bytes);
  if (status.ok() || outgrown_.empty()) return status;
  release();
  return allocate(queue, place, bytes);
}

void DeviceMemory::outgrow() {
  if (registrations_.can_clear()) return give_back();
  std::vector<DeviceMemory> outgrown = std::move(outgrown_);
  outgrown.push_back(std::move(*this));
  outgrown_ = std::move(outgrown);
}

Status DeviceMemory::allocate(const DeviceQueue& queue, Place place, std::size_t bytes) {
  memory_.struct_size = sizeof memory_;
  roda_error error = make_error();
  const auto take = place == Place::kStaging ? queue.device->alloc_staging : queue.device->alloc;
  const Status status = Status::from(take(queue.number, bytes, &memory_, &error), error);
  if (status.ok()) {
    device_ = queue.device;
  } else {
    memory_ = roda_memory{};
  }
  return status;
}

void DeviceMemory::forget(TransportGroup& group) {
  registrations_.remove(group);
  for (DeviceMemory& old : outgrown_) old.registrations_.remove(group);
}

void DeviceMemory::release() {
  outgrown_.clear();
  give_back();
}

void DeviceMemory::give_back() {
  registrations_.clear();
  if (device_ != nullptr) device_->free(&memory_);
  device_ = nullptr;
  memory_ = roda_memory{};
}

}  // namespace roda::execute
