// MPI in this process: started once, by us or by somebody else, and ended at the process's exit only.
#pragma once

#include <roda/abi/host.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>

#include "plugins/base/mutex.h"
#include "transports/mpi/launch.h"
#include "transports/mpi/library.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {

#ifdef OPEN_MPI
constexpr Flavour kFlavour = Flavour::kOpenMpi;
#else
constexpr Flavour kFlavour = Flavour::kMpich;
#endif

// One per process, never destroyed. Any thread.
class Runtime {
 public:
  static Runtime& get();

  // Opened when first asked for. Throws sdk::Failure(RODA_ERR_UNAVAILABLE) with the reason, each time the same.
  const Library& library() {
    if (!is_open_.load(std::memory_order_acquire)) open();
    return library_;
  }

  // Initialises MPI unless that has been done, by us or by another part of the program. Blocks until all processes of
  // the MPI job have come to their MPI_Init. Throws sdk::Failure when MPI was finalised or allows too few threads.
  void start(const roda_host* host);
  bool is_started() const { return started_.load(std::memory_order_acquire); }

  // After start().
  int world_rank() const { return world_rank_; }
  int world_size() const { return world_size_; }
  int largest_tag() const { return largest_tag_; }
  // True when only one thread at a time may be inside MPI.
  bool is_serialised() const { return serialised_; }
  // True when a thread of ours may call MPI although nothing of Horovod's is pending.
  bool may_call_at_any_time() const { return is_ours_ || !serialised_; }
  // MPI was finalised, by us or by somebody else.
  bool has_ended();
  // A rank that MPI connects is gone, and MPI_Finalize may wait for it for ever. Ours is bounded in any case; that of
  // somebody else, who initialised MPI, is from now on. Any thread.
  void peer_lost() { someone_is_lost_.store(true); }
  // Identifies the MPI world among all that may be running, as far as that can be told.
  const std::string& job() const { return job_; }

  // The right to call MPI, for the callers that come one at a time (the baton's holder, init, exit). Where MPI takes
  // several threads a helper thread calls it without.
  class Turn {
   public:
    // Does not block: false while a helper is inside a library that takes one thread, and after MPI's end.
    explicit Turn(Runtime& runtime) : lock_(runtime.mutex_, std::try_to_lock) {
      if (lock_.owns_lock() && runtime.is_over_.load(std::memory_order_relaxed)) lock_.unlock();
    }
    // Waits for it.
    Turn(Runtime& runtime, std::chrono::milliseconds patience) : lock_(runtime.mutex_, patience) {
      if (lock_.owns_lock() && runtime.has_ended()) lock_.unlock();
    }
    explicit operator bool() const { return lock_.owns_lock(); }

   private:
    std::unique_lock<std::timed_mutex> lock_;
  };

  // A helper's call that blocks until other ranks make theirs: excludes Turns only where MPI takes one thread.
  class BlockingCall {
   public:
    explicit BlockingCall(Runtime& runtime) : runtime_(runtime) {
      runtime_.blocked_.fetch_add(1);
      if (runtime.is_serialised()) runtime_.mutex_.lock();
    }
    ~BlockingCall() {
      if (runtime_.is_serialised()) runtime_.mutex_.unlock();
      runtime_.blocked_.fetch_sub(1);
    }
    BlockingCall(const BlockingCall&) = delete;
    BlockingCall& operator=(const BlockingCall&) = delete;

   private:
    Runtime& runtime_;
  };

 private:
  Runtime() = default;
  void initialise(bool one_thread);
  void inspect(const roda_host* host);
  static void at_exit(int status, void* self);
  void finalise(int status);
  void watch_finalise();
  static int at_finalise(MPI_Comm, int, void*, void* self);

  void open();

  Mutex starting_;  // guards what is set before the two flags are
  std::atomic<bool> is_open_{false};
  Library library_;
  std::atomic<bool> started_{false};
  bool serialised_ = false;
  bool is_ours_ = false;  // we initialised it
  int owner_pid_ = 0;
  int world_rank_ = 0;
  int world_size_ = 1;
  int largest_tag_ = 32767;
  std::string job_;
  std::chrono::milliseconds patience_{10'000};  // for MPI_Finalize

  std::timed_mutex mutex_;
  std::atomic<bool> is_over_{false};
  std::atomic<bool> someone_is_lost_{false};
  std::atomic<int> blocked_{0};
};

}  // namespace roda::mpi::RODA_MPI_FLAVOUR
