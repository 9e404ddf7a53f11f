#include "core/submit/operation.h"

#include <bit>
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
  static_cast<OperationState&>(*this) = {};
  request.name.clear();
  request.shape.clear();
  request.splits.clear();
  request.group = {};
  result.reset();
  ready.reset();
  completion.reset();
  result_shape.clear();
  received_splits.clear();
}

HandleTable::~HandleTable() {
  for (auto& chunk : chunks_) delete[] chunk.load(std::memory_order_relaxed);
}

HandleState* HandleTable::at(std::uint32_t index) const {
  const std::uint64_t place = std::uint64_t{index} + kFirstChunk;
  const int log2 = std::bit_width(place) - 1;
  const auto chunk = static_cast<std::size_t>(log2 - std::countr_zero(kFirstChunk));
  HandleState* const states = chunk < kChunks ? chunks_[chunk].load(std::memory_order_acquire) : nullptr;
  return states == nullptr ? nullptr : states + (place - (std::uint64_t{1} << log2));
}

bool HandleTable::take(HandleState* state) {
  std::uint32_t turn = state->turn_.load(std::memory_order_relaxed);
  return turn % kTurns == kFree && turn != kUsedUp &&
         state->turn_.compare_exchange_strong(turn, turn + kLive, std::memory_order_acquire);
}

HandleState* HandleTable::take_free(std::uint32_t* taken) {
  while (true) {
    const std::uint32_t count = count_.load(std::memory_order_acquire);
    std::uint32_t index = next_.load(std::memory_order_relaxed);
    for (std::uint32_t looked = 0; looked < count; ++looked, ++index) {
      if (index >= count) index = 0;
      HandleState* const state = at(index);
      if (!take(state)) continue;
      next_.store(index + 1, std::memory_order_relaxed);
      *taken = index;
      return state;
    }
    const MutexLock lock(mutex_);
    if (count_.load(std::memory_order_relaxed) != count) continue;
    const std::uint32_t more = count + kFirstChunk;  // 64, 128, 256, ...: as many as there are, and as the first has
    chunks_[static_cast<std::size_t>(std::countr_zero(more / kFirstChunk))].store(new HandleState[more],
                                                                                  std::memory_order_release);
    next_.store(count, std::memory_order_relaxed);
    count_.store(count + more, std::memory_order_release);
  }
}

HandleState* HandleTable::create(std::size_t count, std::uint64_t* handle) {
  std::uint32_t index = 0;
  HandleState* const state = take_free(&index);
  if (state->kept_.size() < count) state->kept_.resize(count);
  state->operations = std::span(state->kept_).first(count);
  state->remaining.store(static_cast<std::uint32_t>(count), std::memory_order_relaxed);
  state->first_error = Status();
  state->then = {};
  for (Operation& op : state->operations) op.handle = state;
  *handle = std::uint64_t{state->turn_.load(std::memory_order_relaxed)} << 32 | index;
  return state;
}

HandleState* HandleTable::find(std::uint64_t handle) {
  HandleState* const state = at(static_cast<std::uint32_t>(handle));
  const auto turn = static_cast<std::uint32_t>(handle >> 32);
  const bool is_live =
      state != nullptr && turn % kTurns == kLive && state->turn_.load(std::memory_order_acquire) == turn;
  return is_live ? state : nullptr;
}

void HandleTable::release(std::uint64_t handle) {
  HandleState* const state = find(handle);
  auto turn = static_cast<std::uint32_t>(handle >> 32);
  const std::uint32_t leaving = turn - kLive + kLeaving;
  if (state == nullptr || !state->turn_.compare_exchange_strong(turn, leaving, std::memory_order_acq_rel)) return;
  for (Operation& op : state->operations) op.recycle();
  state->turn_.store(leaving - kLeaving + kTurns, std::memory_order_release);
  next_.store(static_cast<std::uint32_t>(handle), std::memory_order_relaxed);
}

}  // namespace roda::engine
