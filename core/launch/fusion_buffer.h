// Where several tensors travel as one.
#pragma once

#include <cstddef>

#include "core/execute/device_queue.h"
#include "core/execute/group.h"
#include "core/execute/memory.h"

namespace roda::engine {

// A buffer that outlives its launch. Owned by the holder of the baton.
class FusionBuffer {
 public:
  FusionBuffer() = default;
  FusionBuffer(const FusionBuffer&) = delete;
  FusionBuffer& operator=(const FusionBuffer&) = delete;
  ~FusionBuffer() { release(); }
  // At least `bytes` where the queue's work goes: of its device; or host memory, from `group` when that hands out
  // memory. Contents are lost. Without memory the error says how much was asked for and what to do.
  Status ensure(const execute::DeviceQueue& queue, execute::TransportGroup* group, std::size_t bytes);
  // Of a device: the group's library may prepare for it (execute::DeviceMemory).
  void register_with(execute::TransportGroup& group) { on_device_.register_with(group); }
  void forget(execute::TransportGroup& group) { on_device_.forget(group); }
  void release();
  void* data() const { return is_on_device_ ? on_device_.data() : memory_.address; }
  // Null where it is not the group's.
  const roda_memory* memory() const { return is_on_device_ || group_ == nullptr ? nullptr : &memory_; }

 private:
  Status ensure_host(execute::TransportGroup* group, std::size_t length);

  execute::TransportGroup* group_ = nullptr;
  roda_memory memory_{};  // of the host
  bool is_on_device_ = false;
  execute::DeviceMemory on_device_;
};

}  // namespace roda::engine
