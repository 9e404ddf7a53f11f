// Memory of the engine's that only grows: on a device, staging memory beside one, or wherever a launch's work goes.
//
// Threads: the holder of the engine's baton.
#pragma once

#include <roda/abi/device.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/execute/device_queue.h"
#include "plugins/base/status.h"

namespace roda::execute {

class TransportGroup;

// Chunks and ranks are numbered by 32-bit integers.
constexpr std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

inline constexpr std::size_t kLine = 64;

// Asks for large pages under host memory that is about to be written, perhaps for the first time: frameworks' outputs
// are new in every call, and a fault for each small page takes longer than a collective's data. A wish. A system call
// from 4 MiB on, nothing below.
void prefer_large_pages(void* memory, std::size_t bytes);

constexpr std::size_t align_up(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

// Memory of the queue's device, or host memory that the device reads and writes at full speed. What it has outgrown
// goes at once, or, where a group's library or the device would have to be waited for, at a later reserve().
class DeviceMemory {
 public:
  enum class Kind : std::uint8_t { kDevice, kStaging };

  // At least `bytes`; the contents are lost when it grows. Nothing under way may use it then, but for what ends before
  // the event that used_until() was told of last. Of the `lender` where that lends memory of the device: then all of
  // its ranks ask for the same launches and the same bytes, and what it has outgrown stays until the lender is
  // forgotten.
  Status reserve(const DeviceQueue& queue, Kind kind, std::size_t bytes, TransportGroup* lender = nullptr);
  void used_until(const std::shared_ptr<DeviceEvent>& event) {
    if (block_ != nullptr) block_->used_until = event;
  }
  // Offers the memory to the group's library, which may register it until the memory grows or goes. After reserve(). A
  // group that can't register works on the memory as it is; a group whose peers rely on the registration ends by itself
  // when that fails. The group outlives this object, or is forgotten.
  void register_with(TransportGroup& group);
  // The group is about to go. No work of its library on the memory may be under way.
  void forget(TransportGroup& group);
  char* data() const { return block_ == nullptr ? nullptr : static_cast<char*>(block_->memory.address); }
  const roda_memory* memory() const { return block_ == nullptr ? nullptr : &block_->memory; }

 private:
  struct Registration {
    TransportGroup* group;
    roda_memory memory;
    bool is_registered;  // false: the group didn't want it
  };
  struct Block {
    Block() = default;
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    ~Block();
    bool can_go() const;   // without waiting for a library or the device
    bool is_used() const;  // by the device
    const roda_device* device = nullptr;
    TransportGroup* lender = nullptr;  // null: it is the device's own
    roda_memory memory{};
    std::vector<Registration> registrations;
    std::shared_ptr<DeviceEvent> used_until;
  };
  Status allocate(const DeviceQueue& queue, Kind kind, std::size_t bytes, TransportGroup* lender);

  std::unique_ptr<Block> block_;
  std::vector<std::unique_ptr<Block>> outgrown_;
};

// Memory where a queue's work goes: of its device, or of the host.
class WorkMemory {
 public:
  // At least `bytes`, in whole lines; the contents are lost when it grows. `queue` null: in host memory. Of the
  // `lender` where that hands out memory and has so much; on the host it outlives this.
  Status reserve(const DeviceQueue* queue, std::size_t bytes, TransportGroup* lender = nullptr) {
    const bool is_there = queue == nullptr && !is_on_device_ && bytes <= host_.memory.length && lender == asked_;
    return is_there ? Status() : grow(queue, bytes, lender);
  }
  // A device's memory: as DeviceMemory::register_with(). Host memory: nothing.
  void register_with(TransportGroup& group) {
    if (is_on_device_) on_device_.register_with(group);
  }
  // The group is about to go, and nothing uses the memory that it lent.
  void forget(TransportGroup& group);
  void used_until(const std::shared_ptr<DeviceEvent>& event) { on_device_.used_until(event); }
  char* data() const { return data_; }
  // Null where it is neither a device's nor a lender's.
  const roda_memory* memory() const {
    if (is_on_device_) return on_device_.memory();
    return host_.lender == nullptr ? nullptr : &host_.memory;
  }

 private:
  // The lender's memory; null: nobody lent any.
  struct Host {
    Host() = default;
    Host(Host&& other) noexcept { *this = std::move(other); }
    Host& operator=(Host&& other) noexcept {
      std::swap(lender, other.lender);
      std::swap(memory, other.memory);
      return *this;
    }
    ~Host();
    TransportGroup* lender = nullptr;
    roda_memory memory{};
  };
  Status grow(const DeviceQueue* queue, std::size_t bytes, TransportGroup* lender);
  static Status allocate(std::size_t bytes, TransportGroup* lender, Host* host);

  char* data_ = nullptr;
  bool is_on_device_ = false;
  DeviceMemory on_device_;
  Host host_;
  TransportGroup* asked_ = nullptr;  // by whoever reserved that: the lender of host_, unless it had none
};

}  // namespace roda::execute
