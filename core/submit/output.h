// Memory of results whose size is known only after negotiation, on the host or on a device: reference-counted, and it
// outlives the engine.
#pragma once

#include <roda/abi/device.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/execute/device_queue.h"

namespace roda::engine {

// A block with its count in front. Threads: the count is atomic; the contents belong to whoever owns the result.
struct OutputBlock {
  std::atomic<std::uint32_t> references{1};
  const roda_device* device = nullptr;  // that `memory` is of; null: the contents lie behind this header
  roda_memory memory{};
  void* data() { return device == nullptr ? reinterpret_cast<std::byte*>(this) + kHeader : memory.address; }
  static constexpr std::size_t kHeader = 128;

  // In host memory; nullptr when there is none.
  static OutputBlock* allocate(std::size_t bytes);
  // Where the queue's work goes.
  static Status allocate(const execute::DeviceQueue& queue, std::size_t bytes, OutputBlock** block);
  void retain() { references.fetch_add(1, std::memory_order_relaxed); }
  void release();
};

class OutputRef {
 public:
  OutputRef() = default;
  explicit OutputRef(OutputBlock* adopted) : block_(adopted) {}
  OutputRef(const OutputRef&) = delete;
  OutputRef& operator=(const OutputRef&) = delete;
  OutputRef(OutputRef&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  OutputRef& operator=(OutputRef&& other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~OutputRef() {
    if (block_ != nullptr) block_->release();
  }
  OutputBlock* get() const { return block_; }
  explicit operator bool() const { return block_ != nullptr; }

 private:
  OutputBlock* block_ = nullptr;
};

}  // namespace roda::engine
