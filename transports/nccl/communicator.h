// One communicator of NCCL's: its forming, its calls, and its end, none of which blocks the caller.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "plugins/base/cuda/devices.h"
#include "transports/nccl/explain.h"
#include "transports/nccl/library.h"

namespace roda::nccl {

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
               const UniqueId& id, Seat seat);
  // Waits for the end, see retire(), at most as long as it was told there.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // True when no call is under way, so that the next may be made. Throws when forming or a call has failed, and what
  // NCCL has found out on its own (a lost peer).
  bool poll();
  // `body` makes one call, or several between NCCL's group calls, and returns the last one's result. It may be under
  // way when this returns: poll() tells. Throws when it failed, or after the communicator was given up.
  template <typename Body>
  void call(const std::string& what, Body&& body) {
    std::lock_guard lock(state_->calls);
    if (state_->is_closed) throw sdk::Failure(RODA_ERR_ABORTED, "nccl: " + seat_.label + " was given up");
    const cuda::ContextScope scope(driver_, context_);
    const Result result = body(state_->comm);
    if (result != kSuccess && result != kInProgress) throw explain(*library_, driver_, state_->comm, result, what);
  }

  // Its kernels and connections end; on a thread of its own, since NCCL's abort may take long. Idempotent.
  void abort();
  // Gives it back: what is under way is finished first if it is healthy, for as long as `patience`, then it is aborted.
  void retire(std::chrono::milliseconds patience);
  // The end is over, and NCCL begins nothing more.
  bool is_gone() const { return state_->is_gone.load(std::memory_order_acquire); }

 private:
  // Outlives the object when NCCL does not come back from a call.
  struct State {
    std::shared_ptr<const Library> library;
    const cuda::Driver* driver = nullptr;
    cuda::Context context = nullptr;
    std::timed_mutex calls;  // guards the two below, and every use of the communicator
    Comm comm = nullptr;
    bool is_closed = false;
    std::atomic<bool> is_formed{false};
    Result forming = kSuccess;  // set before is_formed
    std::atomic<bool> is_gone{false};
    std::mutex mutex;
    std::condition_variable gone;
  };

  void begin(const UniqueId& id);
  static void form_blocking(const std::shared_ptr<State>& state, UniqueId id, int rank, int size);
  static void end(const std::shared_ptr<State>& state, std::chrono::milliseconds patience);
  static Comm close(State& state);
  static bool finish_work(State& state, std::chrono::milliseconds patience);
  void start_end(std::chrono::milliseconds patience);

  const std::shared_ptr<const Library> library_;
  const cuda::Driver& driver_;
  const cuda::Context context_;
  const Seat seat_;
  const std::shared_ptr<State> state_;
  std::atomic<bool> is_ending_{false};
  std::chrono::milliseconds patience_{0};
  std::thread former_;
  std::mutex ender_guard_;
  std::thread ender_;
};

}  // namespace roda::nccl
