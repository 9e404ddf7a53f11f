// One communicator of NCCL's: its forming, its calls, and its end, none of which blocks the caller.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
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

// abort() from any thread, the rest from one thread at a time. From NCCL 2.14 on calls return at once and NCCL's own
// threads do the work; before that a helper thread forms the communicator, and the first use of a connection may block.
class Communicator {
 public:
  struct Seat {
    int rank;
    int size;
    std::string label;  // "group NAME", for messages
  };
  // Begins to form it. Throws sdk::Failure.
  Communicator(std::shared_ptr<const Library> library, const cuda::Driver& driver, cuda::Context context,
               const UniqueId& id, Seat seat)
      : seat_(std::move(seat)), state_(std::make_shared<State>(std::move(library), driver, context)) {
    begin(id);
  }
  // Waits for the end, see retire(), at most as long as it was told there.
  ~Communicator() {
    start_end(patience_);
    {
      std::unique_lock lock(state_->mutex);
      state_->gone.wait_for(lock, patience_ + kPatienceForCalls * 2, [this] { return is_gone(); });
    }
    // A thread that NCCL does not let go of keeps the state alive, and nothing of ours.
    const auto leave = [](std::thread& thread, bool has_ended) {
      if (thread.joinable()) has_ended ? thread.join() : thread.detach();
    };
    leave(ender_, is_gone());
    leave(former_, state_->is_formed.load(std::memory_order_acquire));
  }

  // True when no call is under way, so that the next may be made. Throws when forming or a call has failed, and what
  // NCCL has found out on its own (a lost peer).
  bool poll() {
    if (!state_->is_formed.load(std::memory_order_acquire)) return false;
    const std::unique_lock lock(state_->calls, std::try_to_lock);
    if (!lock.owns_lock() || state_->is_closed) return false;
    Result found = state_->forming;
    if (found == kSuccess) {
      const Result asked = state_->library->CommGetAsyncError(state_->comm, &found);
      if (asked != kSuccess) found = asked;
    }
    if (found == kInProgress) return false;
    if (found != kSuccess) throw failure(found, seat_.label);
    return true;
  }
  // `body` makes one call, or several between NCCL's group calls, and returns the last one's result. It may be under
  // way when this returns: poll() tells. Throws when it failed, or after the communicator was given up.
  template <typename Body>
  void call(const std::string& what, Body&& body) {
    std::lock_guard lock(state_->calls);
    if (state_->is_closed) throw sdk::Failure(RODA_ERR_ABORTED, "nccl: " + seat_.label + " was given up");
    const cuda::ContextScope scope(state_->driver, state_->context);
    const Result result = body(state_->comm);
    if (result != kSuccess && result != kInProgress) throw failure(result, what);
  }

  // Its kernels and connections end; on a thread of its own, since NCCL's abort may take long. Idempotent.
  void abort() { start_end(milliseconds(0)); }
  // Gives it back: what is under way is finished first if it is healthy, for as long as `patience`, then it is aborted.
  void retire(std::chrono::milliseconds patience) {
    patience_ = patience;
    start_end(patience);
  }
  // The end is over, and NCCL begins nothing more.
  bool is_gone() const { return state_->is_gone.load(std::memory_order_acquire); }

 private:
  using milliseconds = std::chrono::milliseconds;
  // A call of NCCL's that holds the lock this long hangs, and only an abort beside it can end it.
  static constexpr milliseconds kPatienceForCalls{1000};
  static constexpr milliseconds kFinishingPause{1};

  // Outlives the object when NCCL does not come back from a call.
  struct State {
    State(std::shared_ptr<const Library> nccl, const cuda::Driver& cuda, cuda::Context gpu)
        : library(std::move(nccl)), driver(cuda), context(gpu) {}
    const std::shared_ptr<const Library> library;
    const cuda::Driver& driver;
    const cuda::Context context;
    std::timed_mutex calls;  // guards the two below, and every use of the communicator
    Comm comm = nullptr;
    bool is_closed = false;
    std::atomic<bool> is_formed{false};
    Result forming = kSuccess;  // set before is_formed
    std::atomic<bool> is_gone{false};
    std::mutex mutex;
    std::condition_variable gone;
  };

  sdk::Failure failure(Result result, const std::string& what) const {
    return explain(*state_->library, state_->driver, state_->comm, result, what);
  }
  void begin(const UniqueId& id) {
    if (!state_->library->is_non_blocking()) {
      former_ = start_thread("roda-nccl-form",
                             [state = state_, id, seat = seat_] { form_blocking(state, id, seat.rank, seat.size); });
      return;
    }
    Config config;
    call("forming " + seat_.label,
         [&](Comm) { return state_->library->CommInitRankConfig(&state_->comm, seat_.size, id, seat_.rank, &config); });
    state_->is_formed.store(true, std::memory_order_release);
  }
  static void form_blocking(const std::shared_ptr<State>& state, UniqueId id, int rank, int size) {
    const cuda::ContextScope scope(state->driver, state->context);
    Comm comm = nullptr;
    const Result result = state->library->CommInitRank(&comm, size, id, rank);
    const std::lock_guard lock(state->calls);
    state->forming = result;
    if (state->is_closed && comm != nullptr) {
      state->library->CommAbort(comm);
    } else {
      state->comm = comm;
    }
    state->is_formed.store(true, std::memory_order_release);
  }
  static void end(const std::shared_ptr<State>& state, milliseconds patience) {
    const cuda::ContextScope scope(state->driver, state->context);
    const bool was_finished = patience > milliseconds(0) && finish_work(*state, patience);
    if (Comm comm = close(*state)) {
      was_finished ? state->library->CommDestroy(comm) : state->library->CommAbort(comm);
    }
    {
      const std::lock_guard lock(state->mutex);
      state->is_gone.store(true, std::memory_order_release);
    }
    state->gone.notify_all();
  }
  // From here on nobody else uses the communicator.
  static Comm close(State& state) {
    const std::unique_lock lock(state.calls, kPatienceForCalls);
    state.is_closed = true;
    return std::exchange(state.comm, nullptr);
  }
  // True when NCCL has finished all that was begun.
  static bool finish_work(State& state, milliseconds patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    const std::unique_lock lock(state.calls, patience);
    if (!lock.owns_lock() || state.comm == nullptr) return false;
    const Library& library = *state.library;
    Result result = kSuccess;
    if (library.CommGetAsyncError(state.comm, &result) != kSuccess || result != kSuccess) return false;
    if (!library.is_non_blocking() || library.CommFinalize == nullptr) return true;
    result = library.CommFinalize(state.comm);
    while (result == kInProgress && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(kFinishingPause);
      if (library.CommGetAsyncError(state.comm, &result) != kSuccess) return false;
    }
    return result == kSuccess;
  }
  void start_end(milliseconds patience) {
    if (is_ending_.exchange(true)) return;
    const std::lock_guard lock(ender_guard_);
    ender_ = start_thread("roda-nccl-end", [state = state_, patience] { end(state, patience); });
  }

  const Seat seat_;
  const std::shared_ptr<State> state_;
  std::atomic<bool> is_ending_{false};
  std::chrono::milliseconds patience_{0};
  std::thread former_;
  std::mutex ender_guard_;
  std::thread ender_;
};

}  // namespace roda::nccl
