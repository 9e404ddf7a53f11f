// One communicator of NCCL's: its forming, its calls, and its end, none of which blocks the caller.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "plugins/base/cuda/devices.h"
#include "plugins/base/helper_thread.h"
#include "transports/nccl/library.h"

namespace roda::nccl {

// A GPU as this transport uses it: its primary context, streams of our own, and events for reuse.
//
// One thread at a time. Entries throw sdk::Failure.
class Gpu {
 public:
  // Makes the device's primary context if nobody has: for a device that the user named.
  Gpu(const cuda::Driver& driver, int device) : driver_(driver), device_(device) {
    cuda::Devices& devices = cuda::Devices::get(driver);
    check(devices.context(device, &context_));
    check(devices.uuid(device, &uuid_));
  }
  ~Gpu() {
    const cuda::ContextScope scope(driver_, context_);
    for (const cuda::Event event : events_) driver_.EventDestroy(event);
    for (const cuda::Stream stream : streams_) driver_.StreamDestroy(stream);
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  int device() const { return device_; }
  const cuda::Driver& driver() const { return driver_; }
  cuda::Context context() const { return context_; }
  const cuda::Uuid& uuid() const { return uuid_; }
  // "device 0 (NVIDIA H100)"
  std::string label() const {
    return "device " + std::to_string(device_) + " (" + cuda::Devices::get(driver_).name(device_) + ")";
  }

  // Streams of the highest priority, at most `slots`, in turn.
  cuda::Stream next_stream(int slots) {
    const std::size_t slot = turn_++ % static_cast<std::size_t>(slots);
    if (slot < streams_.size()) return streams_[slot];
    const cuda::ContextScope scope(driver_, context_);
    int least = 0, greatest = 0;
    check(driver_.check(driver_.ContextGetPriorities(&least, &greatest), "cuCtxGetStreamPriorityRange"));
    cuda::Stream stream = nullptr;
    check(
        driver_.check(driver_.StreamCreate(&stream, cuda::kStreamNonBlocking, greatest), "cuStreamCreateWithPriority"));
    streams_.push_back(stream);
    return stream;
  }

  // An event recorded on the stream, from the pool.
  cuda::Event record(cuda::Stream stream) {
    const cuda::ContextScope scope(driver_, context_);
    cuda::Event event = nullptr;
    if (events_.empty()) {
      check(driver_.check(driver_.EventCreate(&event, cuda::kEventDisableTiming), "cuEventCreate"));
    } else {
      event = events_.back();
      events_.pop_back();
    }
    const Status recorded = driver_.check(driver_.EventRecord(event, stream), "cuEventRecord");
    if (!recorded.ok()) events_.push_back(event);
    check(recorded);
    return event;
  }
  // kSuccess: what was before it is done. kNotReady, or the error that the device is in.
  cuda::Result query(cuda::Event event) const {
    const cuda::ContextScope scope(driver_, context_);
    return driver_.EventQuery(event);
  }
  // What comes on the stream next waits for the event.
  void hold(cuda::Stream stream, cuda::Event event) const {
    const cuda::ContextScope scope(driver_, context_);
    check(driver_.check(driver_.StreamWaitEvent(stream, event, 0), "cuStreamWaitEvent"));
  }
  void give_back(cuda::Event event) { events_.push_back(event); }

 private:
  const cuda::Driver& driver_;
  const int device_;
  cuda::Context context_ = nullptr;
  cuda::Uuid uuid_{};
  std::vector<cuda::Stream> streams_;
  std::size_t turn_ = 0;
  std::vector<cuda::Event> events_;
};

// abort() from any thread, the rest from one thread at a time. NCCL's calls block: forming does until all have come,
// and so does the first use of a connection. One thread of the communicator's own makes them all, one after the other.
class Communicator {
 public:
  struct Seat {
    int rank;
    int size;
    std::string label;  // "group NAME", for messages
  };
  // Begins to form it.
  Communicator(std::shared_ptr<const Library> library, const cuda::Driver& driver, cuda::Context context,
               const UniqueId& id, Seat seat)
      : seat_(std::move(seat)), state_(std::make_shared<State>(std::move(library), driver, context)) {
    state_->what = "forming " + seat_.label;
    caller_ = start_thread("roda-nccl", [state = state_, id, rank = seat_.rank, size = seat_.size] {
      make_calls(*state, id, rank, size);
    });
  }
  // Waits for the end, see retire(), at most as long as it was told there.
  ~Communicator() {
    start_end(timeout_);
    {
      std::unique_lock lock(state_->mutex);
      state_->changed.wait_for(lock, timeout_ + kTimeoutForCalls * 2, [this] { return is_gone(); });
    }
    // A thread that NCCL does not let go of keeps the state alive, and nothing of ours.
    const auto leave = [](std::thread& thread, bool has_ended) {
      if (thread.joinable()) has_ended ? thread.join() : thread.detach();
    };
    leave(ender_, is_gone());
    leave(caller_, is_gone() && !is_calling());
  }

  // True when no call is under way, so that the next may be made. Throws when forming or the last call has failed, and
  // what NCCL has found out on its own (a lost peer).
  bool poll() {
    const std::lock_guard lock(state_->mutex);
    if (state_->is_closed || state_->is_calling) return false;
    const Result called = state_->result;
    if (state_->comm != nullptr) state_->result = kSuccess;
    if (called != kSuccess) throw failure(called, state_->what);
    Result found = kSuccess;
    const Result asked = state_->library->CommGetAsyncError(state_->comm, &found);
    if (asked != kSuccess) found = asked;
    if (found != kSuccess) throw failure(found, seat_.label);
    return true;
  }
  // After poll() said so. `body` makes one call, or several between NCCL's group calls, and returns the last one's
  // result; what it works on is there until poll() is true again or the communicator is gone. Throws after the
  // communicator was given up.
  void call(std::string what, std::function<Result(Comm)> body) {
    {
      const std::lock_guard lock(state_->mutex);
      if (state_->is_closed) throw sdk::Failure(RODA_ERR_ABORTED, "nccl: " + seat_.label + " was given up");
      state_->is_calling = true;
      state_->what = std::move(what);
      state_->next = std::move(body);
    }
    state_->changed.notify_all();
  }

  // NCCL_COMM_BLOCKING=0 makes every communicator one whose calls return before they are over.
  static Result wait(const Library& library, Comm comm, Result result) {
    while (result == kInProgress) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (const Result asked = library.CommGetAsyncError(comm, &result); asked != kSuccess) return asked;
    }
    return result;
  }

  // Its kernels and connections end; on a thread of its own, since NCCL's abort may take long. Idempotent.
  void abort() { start_end(milliseconds(0)); }
  // Gives it back: a call that is under way is finished first, within `timeout`; else it is aborted.
  void retire(std::chrono::milliseconds timeout) {
    timeout_ = timeout;
    start_end(timeout);
  }
  // The end is over, and NCCL begins nothing more.
  bool is_gone() const { return state_->is_gone.load(std::memory_order_acquire); }

 private:
  using milliseconds = std::chrono::milliseconds;
  // A call of NCCL's that takes this long hangs, and only an abort beside it can end it.
  static constexpr milliseconds kTimeoutForCalls{1000};

  // Outlives the object when NCCL does not come back from a call.
  struct State {
    State(std::shared_ptr<const Library> nccl, const cuda::Driver& cuda, cuda::Context gpu)
        : library(std::move(nccl)), driver(cuda), context(gpu) {}
    const std::shared_ptr<const Library> library;
    const cuda::Driver& driver;
    const cuda::Context context;
    std::atomic<bool> is_gone{false};
    std::mutex mutex;  // guards the rest
    std::condition_variable changed;
    Comm comm = nullptr;     // null while it forms, and once it ends
    bool is_closed = false;  // no call is begun any more
    bool is_calling = true;  // forming, or a call
    std::function<Result(Comm)> next;
    std::string what;          // the last call
    Result result = kSuccess;  // what it returned
  };

  sdk::Failure failure(Result result, const std::string& what) const {
    return explain(*state_->library, state_->driver, state_->comm, result, what);
  }
  bool is_calling() const {
    const std::lock_guard lock(state_->mutex);
    return state_->is_calling;
  }
  static void make_calls(State& state, const UniqueId& id, int rank, int size) {
    const cuda::ContextScope scope(state.driver, state.context);
    Comm comm = nullptr;
    Result result = state.library->CommInitRank(&comm, size, id, rank);
    result = wait(*state.library, comm, result);
    std::unique_lock lock(state.mutex);
    if (!state.is_closed) state.comm = std::exchange(comm, nullptr);
    while (!state.is_closed) {
      state.result = result;
      state.is_calling = false;
      state.changed.notify_all();
      state.changed.wait(lock, [&state] { return state.is_closed || state.next != nullptr; });
      if (state.is_closed) break;
      const auto body = std::exchange(state.next, nullptr);
      const Comm known = state.comm;
      lock.unlock();
      result = wait(*state.library, known, body(known));
      lock.lock();
    }
    lock.unlock();
    if (comm != nullptr) state.library->CommAbort(comm);  // given up while it formed: nobody else knows it
    lock.lock();
    state.is_calling = false;
    state.next = nullptr;
    state.changed.notify_all();
  }
  static void end(State& state, milliseconds timeout) {
    const cuda::ContextScope scope(state.driver, state.context);
    const auto is_idle = [&state] { return !state.is_calling; };
    std::unique_lock lock(state.mutex);
    if (state.comm != nullptr) state.changed.wait_for(lock, std::max(timeout, kTimeoutForCalls), is_idle);
    state.is_closed = true;
    Comm const comm = std::exchange(state.comm, nullptr);
    bool is_healthy = timeout > milliseconds(0) && is_idle() && state.result == kSuccess;
    lock.unlock();
    state.changed.notify_all();
    if (comm != nullptr) {
      Result found = kSuccess;
      is_healthy = is_healthy && state.library->CommGetAsyncError(comm, &found) == kSuccess && found == kSuccess;
      is_healthy ? state.library->CommDestroy(comm) : state.library->CommAbort(comm);
    }
    lock.lock();
    // What a call works on is its until it has returned.
    if (comm != nullptr) state.changed.wait(lock, is_idle);
    state.is_gone.store(true, std::memory_order_release);
    state.changed.notify_all();
  }
  void start_end(milliseconds timeout) {
    if (is_ending_.exchange(true)) return;
    const std::lock_guard lock(ender_guard_);
    ender_ = start_thread("roda-nccl-end", [state = state_, timeout] { end(*state, timeout); });
  }

  const Seat seat_;
  const std::shared_ptr<State> state_;
  std::atomic<bool> is_ending_{false};
  std::chrono::milliseconds timeout_{0};
  std::thread caller_;
  std::mutex ender_guard_;
  std::thread ender_;
};

}  // namespace roda::nccl
