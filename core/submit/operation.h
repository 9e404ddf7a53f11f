// One submitted operation and the handle that one or several of them share.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/execute/device_queue.h"
#include "core/negotiate/request.h"
#include "core/submit/continuations.h"
#include "core/submit/producers.h"
#include "plugins/base/coarse_clock.h"
#include "plugins/base/mutex.h"
#include "plugins/base/status.h"

namespace roda::engine {

// Barriers and joins have no name of their own: one at a time per process set.
inline constexpr const char* kJoinName = "join.noname";
inline constexpr const char* kBarrierName = "barrier.noname";

// Memory of results whose size is known only after negotiation, on the host or on a device: it outlives the engine. A
// block has its count in front. Threads: the count is atomic; the contents belong to whoever owns the result.
struct OutputBlock {
  std::atomic<std::uint32_t> references{1};
  const roda_device* device = nullptr;  // that `memory` is of; null: the contents lie behind this header
  roda_memory memory{};
  bool has_order = false;                              // it goes in the order of a stream
  std::shared_ptr<execute::DeviceEvent> completion{};  // of its contents
  std::atomic<void*> user{nullptr};                    // the stream that waited for them last
  void* data() { return device == nullptr ? reinterpret_cast<std::byte*>(this) + kHeader : memory.address; }
  static constexpr std::size_t kHeader = 128;

  // Where the queue's work goes. `has_order`: it goes in the order of the stream that waits for it, where the device
  // can.
  static Status allocate(const execute::DeviceQueue& queue, std::size_t bytes, bool has_order, OutputBlock** block);
  // The caller has made that stream wait for the contents. A thread's own stream is not any thread's to put things on.
  void used_on(void* stream) {
    const bool is_shared = reinterpret_cast<std::uintptr_t>(stream) != execute::kPerThreadStream;
    user.store(is_shared ? stream : nullptr, std::memory_order_release);
  }
  void retain() { references.fetch_add(1, std::memory_order_relaxed); }
  void release();
};

struct OutputRelease {
  void operator()(OutputBlock* block) const { block->release(); }
};
using OutputRef = std::unique_ptr<OutputBlock, OutputRelease>;

struct HandleState;

struct Operation;

// The part of an operation that each use begins anew with.
struct OperationState {
  const void* input = nullptr;
  void* output = nullptr;  // the caller's; null: the engine allocates `result`
  // Where `output` is null: the caller's own way to memory for it; null: `result`.
  void* (*allocate)(void* context, const std::int64_t* shape, std::int32_t ndim, std::uint64_t bytes) = nullptr;
  void* allocate_context = nullptr;
  std::int32_t value = 0;        // join: the rank that joined last
  int bit = -1;                  // announced by this cache bit, -1: in full or not yet
  bool launched = false;         // part of a launch: it ends with that
  bool in_turn = false;          // where its name is in flight it waits for the end of that one
  bool in_stream_order = false;  // the caller goes on in its stream's order: it may end when its work lies on ours
  CoarseClock::time_point submitted;
  std::uint64_t recorded = 0;  // its number in the flight recorder; 0: not there yet
  HandleState* handle = nullptr;
  std::size_t name_hash = 0;  // once it is submitted
  // The two links below belong to Submissions, under its lock.
  Operation* next_by_name = nullptr;    // of those in flight in one bucket of names
  Operation* next_submitted = nullptr;  // submitted before, and not taken yet
};

// Owner: the submitting thread until it is queued, then the holder of the baton, then (done) the waiter.
struct Operation : OperationState {
  negotiate::Request request;  // the submitting thread fills in all of it
  OutputRef result;
  // On a device: when the input is complete (null: it is), and when the outputs are.
  std::shared_ptr<Producer> ready;
  std::shared_ptr<execute::DeviceEvent> completion;
  std::vector<std::int64_t> result_shape;
  std::vector<std::int32_t> received_splits;

  // Makes it ready for another use: forgets all but the memory of its name, shapes and splits.
  void recycle();
  std::size_t bytes() const { return static_cast<std::size_t>(request.elements()) * roda_dtype_size(request.dtype); }
};

// The operations that a roda_handle stands for. `remaining` reaching zero publishes everything else to waiters.
struct HandleState {
  std::span<Operation> operations;
  std::atomic<std::uint32_t> remaining{0};
  Status first_error;  // written by the baton's holder before the last decrement
  Continuation then;   // whom its end is told; under the lock of Submissions

  bool done() const { return remaining.load(std::memory_order_acquire) == 0; }

 private:
  friend class HandleTable;
  std::vector<Operation> kept_;  // `operations` are the first of them
  // The upper half of its number while it is somebody's; else nobody's, or about to be (HandleTable::Turn).
  std::atomic<std::uint32_t> turn_{0};
};

// Handles by number, of all engines of the process: a number never means two. Any thread; takes a lock only to grow.
class HandleTable {
 public:
  HandleTable() = default;
  ~HandleTable();
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;

  // A fresh state with `count` operations. The pointer is valid until release().
  HandleState* create(std::size_t count, std::uint64_t* handle);
  // Null: the number was never given, or was released.
  HandleState* find(std::uint64_t handle);
  void release(std::uint64_t handle);

 private:
  // What a state's turn says of it, by the remainder; each use takes it through all of them, and the last number of all
  // is never passed.
  enum Turn : std::uint32_t { kFree = 0, kLive = 1, kLeaving = 2, kTurns = 4, kUsedUp = UINT32_MAX - 3 };
  // States stay where they are, in chunks of which each has twice as many as the one before.
  static constexpr std::uint32_t kFirstChunk = 64;
  static constexpr std::size_t kChunks = 26;
  HandleState* at(std::uint32_t index) const;  // null: there was none yet
  static bool take(HandleState* state);        // false: it is somebody's
  HandleState* take_free(std::uint32_t* index);

  std::array<std::atomic<HandleState*>, kChunks> chunks_{};
  std::atomic<std::uint32_t> count_{0};  // of states
  std::atomic<std::uint32_t> next_{0};   // looked at first, and those behind it next: the last one that was released
  Mutex mutex_;                          // of whoever adds a chunk
};

}  // namespace roda::engine
