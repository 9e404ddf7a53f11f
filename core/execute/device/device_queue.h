// Where the copies and kernels of a launch go: a device, and a stream of it.
//
// On a device with streams everything here is put behind what the stream holds and the call returns; in host memory,
// which has no streams, it has been done on return.
#pragma once

#include <roda/abi/device.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/execute/device/registrations.h"
#include "plugins/base/status.h"
#include "plugins/devices/cpu/cpu_device.h"

namespace roda::execute {

class DeviceAbilities;
class DeviceEvent;

// A value. Threads: any, as the device's entries.
struct DeviceQueue {
  const roda_device* device = roda_cpu_device();
  std::int32_t number = -1;  // of the device in this process; -1: host memory
  void* stream = nullptr;
  DeviceAbilities* abilities = nullptr;  // of the device; null: in host memory

  int memory_kind() const { return device->memory_kind; }
  bool is_host() const { return stream == nullptr; }

  Status copy(void* dst, const void* src, std::size_t bytes) const;
  // As roda_device has them: `items` may go when the call returns.
  Status pack(void* buffer, const roda_pack_item* items, std::size_t count) const;
  Status unpack(const void* buffer, const roda_pack_item* items, std::size_t count) const;
  Status scale(void* data, std::size_t count, int dtype, double factor) const;
  // What comes after this waits for the event. Null: nothing.
  Status wait_for(const DeviceEvent* event) const;
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
  Status hold(void* stream) const;

 private:
  DeviceEvent(const roda_device* device, void* event) : device_(device), event_(event) {}
  const roda_device* device_;
  void* event_;
};

// Memory that only grows: of the queue's device, or host memory that the device reads and writes at full speed. What it
// has outgrown goes at once, or, where a group's library would have to be waited for, at a later reserve().
// Threads: one at a time.
class DeviceMemory {
 public:
  enum class Place : std::uint8_t { kDevice, kStaging };

  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  DeviceMemory(DeviceMemory&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)),
        memory_(std::exchange(other.memory_, roda_memory{})),
        registrations_(std::move(other.registrations_)),
        outgrown_(std::move(other.outgrown_)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(memory_, other.memory_);
    registrations_.swap(other.registrations_);
    outgrown_.swap(other.outgrown_);
    return *this;
  }
  ~DeviceMemory() { release(); }

  // At least `bytes`; the contents are lost when it grows. Nothing under way may use it then.
  Status reserve(const DeviceQueue& queue, Place place, std::size_t bytes);
  // Waits for what the groups' libraries have under way.
  void release();
  // The group's library may prepare for the memory, which stays until it grows or is released. After reserve().
  void register_with(TransportGroup& group) { registrations_.add(group, memory_); }
  // The group is about to go. No work of its library on the memory may be under way.
  void forget(TransportGroup& group);
  char* data() const { return static_cast<char*>(memory_.address); }
  const roda_memory* memory() const { return &memory_; }

 private:
  Status allocate(const DeviceQueue& queue, Place place, std::size_t bytes);
  void outgrow();
  void give_back();  // the present memory

  const roda_device* device_ = nullptr;
  roda_memory memory_{};
  Registrations registrations_;
  std::vector<DeviceMemory> outgrown_;
};

}  // namespace roda::execute
