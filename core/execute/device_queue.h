// Where the copies and kernels of a launch go: a device, and a stream of it.
//
// On a device with streams everything here is put behind what the stream holds and the call returns; in host memory,
// which has no streams, it has been done on return.
#pragma once

#include <roda/abi/device.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "plugins/base/status.h"
#include "plugins/devices/cpu/cpu_device.h"

namespace roda::execute {

// Calls an entry of a C table, whose last argument is the error, and gives what it says.
template <typename Entry, typename... Arguments>
Status invoke(Entry entry, Arguments... arguments) {
  roda_error error = make_error();
  const int code = entry(arguments..., &error);
  return Status::from(code, error);
}

class DeviceEvent;

// CUDA's handles of the default streams: the one of all threads, and the one that every thread has of its own, of which
// only the thread itself can mark a point, or say what comes behind it.
inline constexpr std::uintptr_t kLegacyStream = 1;
inline constexpr std::uintptr_t kPerThreadStream = 2;

// State that all queues of one device share. For the holder of the baton.
struct DeviceCommons {
  std::optional<bool> reduces;  // what DeviceQueue::can_reduce() has found
  // Streams of the device for copies to host memory and back, beside all other work; null: none was needed yet.
  void* down = nullptr;
  void* up = nullptr;
};

// A value. Threads: any, as the device's entries.
struct DeviceQueue {
  const roda_device* device = roda_cpu_device();
  std::int32_t number = -1;  // of the device in this process; -1: host memory
  void* stream = nullptr;
  DeviceCommons* commons = nullptr;  // null: in host memory

  int memory_kind() const { return device->memory_kind; }
  bool is_host() const { return stream == nullptr; }
  // Whether kernels run on the device: without any it copies, and nothing else. Tried at the first call. Where there
  // was no memory to try it with, the answer is no, and the next call tries again.
  bool can_reduce() const;
  // The queue for copies from the device (`is_up`: to it), whose stream is made when first asked for; this one where
  // there are no commons. For the holder of the baton.
  Status for_copies(bool is_up, DeviceQueue* copies) const;
  // Work that is put on this queue from now on comes after all work that the other one holds now.
  Status follow(const DeviceQueue& other) const;

  Status copy(void* dst, const void* src, std::size_t bytes) const;
  // As roda_device has them: `items` may go when the call returns.
  Status pack(void* buffer, const roda_pack_item* items, std::size_t count) const;
  Status unpack(const void* buffer, const roda_pack_item* items, std::size_t count) const;
  Status scale(void* data, std::size_t count, int dtype, double factor) const;
};

// A point in a stream. Threads: one at a time, but for test().
class DeviceEvent {
 public:
  // After everything that the stream holds now.
  static Status record(const DeviceQueue& queue, std::shared_ptr<DeviceEvent>* event);
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;
  ~DeviceEvent() { device_->event_release(event_); }

  // *over: the stream has come to it. An error: the device has failed, and what was before it did not end well.
  Status test(bool* over) const;
  // Makes a stream of the same kind of device wait for it.
  Status hold(void* stream) const { return invoke(device_->event_wait, stream, event_); }
  // As hold(), but not again for the stream of the call before, which has lived since the event was recorded. Any
  // thread.
  Status hold_once(void* stream) {
    if (told_.load(std::memory_order_acquire) == stream) return {};
    const Status status = hold(stream);
    if (status.ok()) told_.store(stream, std::memory_order_release);
    return status;
  }

 private:
  DeviceEvent(const roda_device* device, void* event) : device_(device), event_(event) {}
  const roda_device* device_;
  void* event_;
  std::atomic<void*> told_{nullptr};
};

}  // namespace roda::execute
