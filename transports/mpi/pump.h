// Keeps MPI moving while nobody calls it.
//
// MPI moves things only inside its calls, and an operation that has ended for its caller may still lie in a queue of
// this process: a short message on a connection that is being made, or the last word about a long one that was
// received. The caller, with nothing in flight, may stop calling. From then on a thread does, less and less often,
// until nobody can be waiting for what ended here any more: every operation has a limit, and ends with an error beyond
// it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <thread>

#include "plugins/base/mutex.h"
#include "transports/mpi/runtime.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {

// Belongs to a context. One thread at a time, that of the context.
class Pump {
 public:
  explicit Pump(Runtime& runtime) : runtime_(runtime) {}
  ~Pump();
  Pump(const Pump&) = delete;
  Pump& operator=(const Pump&) = delete;

  // A group has formed, whose operations may last so long; 0: for ever. MPI has started.
  void serve(std::chrono::nanoseconds limit);
  // One call of MPI, which moves whatever there is. With a Turn; any thread.
  void push();
  // Something ended here.
  void note() {
    ends_.fetch_add(1);
    if (is_asleep_.load()) wake();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void run();
  void wake();
  // Until something ends or this does.
  void sleep(MutexLock* lock, std::uint64_t seen) RODA_REQUIRES(mutex_);

  Runtime& runtime_;
  std::atomic<std::uint64_t> ends_{0};
  std::atomic<bool> is_asleep_{false};
  Mutex mutex_;
  std::condition_variable changed_;
  std::chrono::nanoseconds limit_ RODA_GUARDED_BY(mutex_){1};  // the longest of the groups'
  bool is_over_ RODA_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace roda::mpi::RODA_MPI_FLAVOUR
