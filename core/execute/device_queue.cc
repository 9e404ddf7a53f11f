#include "core/execute/device_queue.h"

#include "core/execute/memory.h"

namespace roda::execute {

bool DeviceQueue::can_reduce() const {
  if (commons->reduces.has_value()) return *commons->reduces;
  DeviceMemory one;
  if (!one.reserve(*this, DeviceMemory::Kind::kDevice, 64).ok()) return false;
  return commons->reduces.emplace(
      device->reduce(one.data(), one.data(), one.data(), 1, RODA_FLOAT32, RODA_MAX, nullptr, nullptr) == RODA_OK);
}

Status DeviceQueue::for_copies(bool is_up, DeviceQueue* copies) const {
  *copies = *this;
  if (commons == nullptr) return {};
  void*& own = is_up ? commons->up : commons->down;
  if (own == nullptr) RODA_RETURN_IF_ERROR(invoke(device->stream_create, number, &own));
  copies->stream = own;
  return {};
}

Status DeviceQueue::follow(const DeviceQueue& other) const {
  if (stream == other.stream) return {};
  std::shared_ptr<DeviceEvent> event;
  RODA_RETURN_IF_ERROR(DeviceEvent::record(other, &event));
  return event->hold(stream);
}

Status DeviceQueue::copy(void* dst, const void* src, std::size_t bytes) const {
  return dst == src || bytes == 0 ? Status() : invoke(device->copy, dst, src, bytes, stream);
}

Status DeviceQueue::pack(void* buffer, const roda_pack_item* items, std::size_t count) const {
  return count == 0 ? Status() : invoke(device->pack, buffer, items, count, stream);
}

Status DeviceQueue::unpack(const void* buffer, const roda_pack_item* items, std::size_t count) const {
  return count == 0 ? Status() : invoke(device->unpack, buffer, items, count, stream);
}

Status DeviceQueue::scale(void* data, std::size_t count, int dtype, double factor) const {
  return factor == 1.0 || count == 0 ? Status() : invoke(device->scale, data, count, dtype, factor, stream);
}

Status DeviceEvent::record(const DeviceQueue& queue, std::shared_ptr<DeviceEvent>* event) {
  void* made = nullptr;
  if (queue.device->event_record_on != nullptr) {
    RODA_RETURN_IF_ERROR(invoke(queue.device->event_record_on, queue.number, queue.stream, &made));
  } else {
    RODA_RETURN_IF_ERROR(invoke(queue.device->event_record, queue.stream, &made));
  }
  event->reset(new DeviceEvent(queue.device, made));
  return {};
}

Status DeviceEvent::test(bool* over) const {
  roda_error error = make_error();
  const int code = device_->event_test(event_, &error);
  *over = code != RODA_IN_PROGRESS;
  return Status::from(code, error);
}

}  // namespace roda::execute
