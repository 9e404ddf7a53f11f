#include "core/submit/operation.h"

#include <cstdlib>
#include <new>
#include <string>
#include <utility>

namespace roda::engine {

Status OutputBlock::allocate(const execute::DeviceQueue& queue, std::size_t bytes, bool has_order,
                             OutputBlock** block) {
  const std::size_t behind = queue.is_host() ? bytes : 0;
  void* memory = std::aligned_alloc(64, (kHeader + behind + 63) / 64 * 64);
  if (memory == nullptr) return Status::no_memory("there is not so much host memory");
  OutputRef made(new (memory) OutputBlock);
  if (!queue.is_host()) {
    made->memory.struct_size = sizeof made->memory;
    const roda_device& device = *queue.device;
    const bool can = has_order && device.alloc_on != nullptr && device.free_on != nullptr;
    Status status = Status::unsupported("");
    if (can) status = execute::invoke(device.alloc_on, queue.number, bytes, queue.stream, &made->memory);
    made->has_order = status.ok();
    if (status.code() == RODA_ERR_UNSUPPORTED) {
      status = execute::invoke(device.alloc, queue.number, bytes, &made->memory);
    }
    RODA_RETURN_IF_ERROR(status);
    made->device = queue.device;
  }
  *block = made.release();
  return {};
}

void OutputBlock::release() {
  static_assert(sizeof(OutputBlock) <= kHeader);
  if (references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // Where no stream has waited for it nobody uses it, but for what writes the contents.
  void* stream = user.load(std::memory_order_acquire);
  if (has_order && stream == nullptr && completion != nullptr) {
    stream = reinterpret_cast<void*>(execute::kLegacyStream);
    if (!completion->hold(stream).ok()) stream = nullptr;
  }
  if (has_order && stream != nullptr) {
    device->free_on(&memory, stream);
  } else if (device != nullptr) {
    device->free(&memory);
  }
  this->~OutputBlock();
  std::free(this);
}

void Operation::recycle() {
  std::string name = std::move(request.name);
  std::vector<std::int64_t> shape = std::move(request.shape);
  std::destroy_at(this);
  std::construct_at(this);
  name.clear();
  shape.clear();
  request.name = std::move(name);
  request.shape = std::move(shape);
}

HandleState* HandleTable::create(std::size_t count, std::uint64_t* handle) {
  const MutexLock lock(mutex_);
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  Slot& slot = slots_[index];
  if (slot.state == nullptr) slot.state = std::make_unique<HandleState>();
  slot.live = true;
  HandleState* state = slot.state.get();
  state->operations.resize(count);
  state->remaining.store(static_cast<std::uint32_t>(count), std::memory_order_relaxed);
  state->first_error = Status();
  state->then = {};
  for (Operation& op : state->operations) op.handle = state;
  *handle = (std::uint64_t{slot.generation} << 32) | index;
  return state;
}

HandleTable::Slot* HandleTable::find_locked(std::uint64_t handle) {
  const auto index = static_cast<std::uint32_t>(handle);
  if (index >= slots_.size()) return nullptr;
  Slot& slot = slots_[index];
  return slot.live && slot.generation == handle >> 32 ? &slot : nullptr;
}

HandleState* HandleTable::find(std::uint64_t handle) {
  const MutexLock lock(mutex_);
  const Slot* slot = find_locked(handle);
  return slot == nullptr ? nullptr : slot->state.get();
}

void HandleTable::release(std::uint64_t handle) {
  const MutexLock lock(mutex_);
  Slot* slot = find_locked(handle);
  if (slot == nullptr) return;
  slot->live = false;
  if (++slot->generation == 0) {
    slot->state.reset();
    return;
  }
  for (Operation& op : slot->state->operations) op.recycle();
  free_.push_back(static_cast<std::uint32_t>(handle));
}

}  // namespace roda::engine
