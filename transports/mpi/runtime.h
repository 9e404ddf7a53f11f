// MPI in this process: started once, by us or by somebody else, and ended at the process's exit only.
#pragma once

#include <roda/abi/host.h>
#include <unistd.h>
#include <roda/sdk/error.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <mutex>
#include <thread>

#include "plugins/base/helper_thread.h"
#include "plugins/base/mutex.h"
#include "transports/mpi/library.h"
#include "transports/mpi/mpi.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {

#ifdef OPEN_MPI
constexpr Flavour kFlavour = Flavour::kOpenMpi;
#elif defined(MPICH_VERSION)
constexpr Flavour kFlavour = Flavour::kMpich;
#else
constexpr Flavour kFlavour = Flavour::kStandard;
#endif

inline const char* level_name(int level) {
  if (level == MPI_THREAD_SINGLE) return "MPI_THREAD_SINGLE";
  if (level == MPI_THREAD_FUNNELED) return "MPI_THREAD_FUNNELED";
  return level == MPI_THREAD_SERIALIZED ? "MPI_THREAD_SERIALIZED" : "MPI_THREAD_MULTIPLE";
}

// Ends the process if it is not called off in time: MPI_Finalize waits for every rank, dead ones too.
class Watchdog {
 public:
  Watchdog(std::chrono::milliseconds timeout, int status, const char* why)
      : thread_(start_thread("roda-mpi-exit", [over = called_off_.get_future(), timeout, status, why] {
          if (over.wait_for(timeout) == std::future_status::ready) return;
          std::fprintf(stderr,
                       "roda: MPI_Finalize was called %d s ago (HOROVOD_ABORT_TIMEOUT_SECONDS), and %s; this process "
                       "ends now\n",
                       static_cast<int>(timeout.count() / 1000), why);
          std::fflush(nullptr);
          ::_exit(status);
        })) {}
  ~Watchdog() {
    called_off_.set_value();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::promise<void> called_off_;
  std::thread thread_;
};

inline bool is_set(const roda_host* host, const char* name) {
  const char* text = host->knob(host->self, name);
  return text != nullptr && std::atoi(text) > 0;
}

// One per process, never destroyed. Any thread.
class Runtime {
 public:
  static Runtime& get() {
    static auto* runtime = new Runtime;
    return *runtime;
  }

  // Opened when first asked for. Throws sdk::Failure(RODA_ERR_UNAVAILABLE) with the reason, each time the same.
  const Library& library() {
    if (!is_open_.load(std::memory_order_acquire)) open();
    return library_;
  }

  // Initialises MPI unless that has been done, by us or by another part of the program. Blocks until all processes of
  // the MPI job have come to their MPI_Init. Throws sdk::Failure when MPI was finalised or allows too few threads.
  void start(const roda_host* host) {
    library();
    const MutexLock lock(starting_);
    if (has_ended()) {
      throw sdk::Failure(RODA_ERR_UNAVAILABLE, "MPI was finalised in this process and can't be started again");
    }
    if (started_.load()) return;
    int initialised = 0;
    library_.Initialized(&initialised);
    owner_pid_ = ::getpid();
    if (initialised == 0) initialise(is_set(host, "HOROVOD_MPI_THREADS_DISABLE"));
    inspect(host);
    if (initialised != 0) watch_finalise();
    started_.store(true, std::memory_order_release);
  }
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
  bool has_ended() {
    int finalised = 0;
    library_.Finalized(&finalised);
    return finalised != 0 || is_over_.load();
  }
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
    Turn(Runtime& runtime, std::chrono::milliseconds timeout) : lock_(runtime.mutex_, timeout) {
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
  void initialise(bool one_thread) {
    library_.make_global();
    int provided = MPI_THREAD_SINGLE;
    check(library_,
          library_.Init_thread(nullptr, nullptr, one_thread ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE, &provided),
          "MPI_Init_thread");
    is_ours_ = true;
    // With its status: an exit that has to be cut short must not change it.
    ::on_exit(&Runtime::at_exit, this);
    library_.Comm_set_errhandler(library_.comm_world, library_.errors_return);
  }
  void inspect(const roda_host* host) {
    int level = MPI_THREAD_SINGLE;
    check(library_, library_.Query_thread(&level), "MPI_Query_thread");
    if (level < MPI_THREAD_SERIALIZED) {
      throw sdk::Failure(RODA_ERR_UNAVAILABLE,
                         std::string(is_ours_ ? "this MPI offers " : "the program initialised MPI with ") +
                             level_name(level) +
                             ", but Horovod calls it from threads of its own: MPI_THREAD_SERIALIZED is the least "
                             "(with mpi4py: mpi4py.rc.thread_level, before `from mpi4py import MPI`)");
    }
    // MPI takes several threads, but the user wants no two inside at once.
    serialised_ = level != MPI_THREAD_MULTIPLE || is_set(host, "HOROVOD_MPI_THREADS_DISABLE");
    if (level == MPI_THREAD_SERIALIZED && !is_ours_) {
      host->log(
          host->self, RODA_LOG_WARNING, "mpi",
          "the program initialised MPI with MPI_THREAD_SERIALIZED: it must not call MPI while operations of Horovod "
          "are pending; MPI_THREAD_MULTIPLE lifts that");
    }
    check(library_, library_.Comm_rank(library_.comm_world, &world_rank_), "MPI_Comm_rank");
    check(library_, library_.Comm_size(library_.comm_world, &world_size_), "MPI_Comm_size");
    int* limit = nullptr;
    int found = 0;
    library_.Comm_get_attr(library_.comm_world, MPI_TAG_UB, &limit, &found);
    if (found != 0) largest_tag_ = *limit;
    const Launch launch = find_launch(kFlavour, std::getenv);
    job_ = launch.job.empty() ? "world of " + std::to_string(world_size_) : launch.job;
    if (const char* text = host->knob(host->self, "HOROVOD_ABORT_TIMEOUT_SECONDS")) {
      const double seconds = std::atof(text);
      if (seconds > 0) finalize_timeout_ = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
    }
  }
  static void at_exit(int status, void* self) {
    auto* runtime = static_cast<Runtime*>(self);
    // A forked child inherits the handler but not MPI.
    if (runtime->owner_pid_ == ::getpid()) runtime->finalise(status);
  }
  void finalise(int status) {
    const Turn turn(*this, finalize_timeout_);
    const bool nobody_inside = turn && blocked_.load() == 0;
    is_over_.store(true);
    // MPI_Finalize waits for all ranks, and MPI's launcher blames the rank that it sees to end first with an error.
    if (!nobody_inside || status != 0) return;
    const Watchdog watchdog(finalize_timeout_, status, "some rank has not come to it or is dead");
    library_.Finalize();
  }
  // MPI_Finalize begins by deleting the attributes of MPI_COMM_SELF: that is the standard's way to be told of it.
  void watch_finalise() {
    const auto never_copied = [](MPI_Comm, int, void*, void*, void*, int* copied) -> int {
      *copied = 0;
      return MPI_SUCCESS;
    };
    int key = 0;
    check(library_, library_.Comm_create_keyval(never_copied, &Runtime::at_finalise, &key, this),
          "MPI_Comm_create_keyval");
    check(library_, library_.Comm_set_attr(library_.comm_self, key, this), "MPI_Comm_set_attr");
  }
  static int at_finalise(MPI_Comm, int, void*, void* self) {
    auto* runtime = static_cast<Runtime*>(self);
    if (runtime->owner_pid_ != ::getpid()) return MPI_SUCCESS;
    const Turn last(*runtime, runtime->finalize_timeout_);  // nobody of ours is inside, and nobody comes again
    runtime->is_over_.store(true);
    // Not called off by anything but the process's end: MPI_Finalized may be true long before MPI_Finalize is over.
    if (runtime->someone_is_lost_.load()) {
      new Watchdog(runtime->finalize_timeout_, EXIT_FAILURE, "a rank was lost, for which it may wait for ever");
    }
    return MPI_SUCCESS;
  }

  void open() {
    const MutexLock lock(starting_);
    if (!is_open_.load()) library_.open();
    is_open_.store(true, std::memory_order_release);
  }

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
  std::chrono::milliseconds finalize_timeout_{10'000};  // for MPI_Finalize

  std::timed_mutex mutex_;
  std::atomic<bool> is_over_{false};
  std::atomic<bool> someone_is_lost_{false};
  std::atomic<int> blocked_{0};
};

// Keeps MPI moving while nobody calls it.
//
// MPI moves things only inside its calls, and an operation that has ended for its caller may still lie in a queue of
// this process: a short message on a connection that is being made, or the last word about a long one that was
// received. The caller, with nothing in flight, may stop calling. From then on a thread does, less and less often,
// until nobody can be waiting for what ended here any more: every operation has a limit, and ends with an error beyond
// it.
//
// Belongs to a context. One thread at a time, that of the context.
class Pump {
 public:
  explicit Pump(Runtime& runtime) : runtime_(runtime) {}
  // Deletes a pump, unless its thread does not come back from MPI, which a failure may lock up: such a pump stays for
  // the life of the process.
  struct End {
    void operator()(Pump* pump) const {
      if (pump->has_left()) delete pump;
    }
  };

  // A group has formed, whose operations may last so long; 0: for ever. MPI has started.
  void serve(std::chrono::nanoseconds limit) {
    // A program that called MPI from one thread at a time would not know of this one.
    if (!runtime_.may_call_at_any_time()) return;
    const MutexLock lock(mutex_);
    limit_ = limit.count() == 0 ? std::chrono::nanoseconds::max() : std::max(limit_, limit);
    if (!thread_.joinable()) thread_ = start_thread("roda-mpi-pump", [this] { run(); });
  }
  // One call of MPI, which moves whatever there is. With a Turn; any thread.
  void push() {
    if (runtime_.has_ended()) return;
    const Library& mpi = runtime_.library();
    int found = 0;
    mpi.Iprobe(MPI_ANY_SOURCE, kProbeTag, mpi.comm_world, &found, MPI_STATUS_IGNORE);
  }
  // Something ended here.
  void note() {
    ends_.fetch_add(1);
    if (is_asleep_.load()) wake();
  }

 private:
  using Clock = std::chrono::steady_clock;
  // Between two calls, at first and after a while: what got stuck meanwhile is late by so much.
  static constexpr std::chrono::milliseconds kShortest{1};
  static constexpr std::chrono::milliseconds kLongest{64};
  // Between two looks at a caller that is at work, for each takes the core from it for a moment. It is silent when
  // nothing ended between two of them.
  static constexpr std::chrono::milliseconds kLongestAtWork{8};
  static constexpr int kProbeTag = 0;  // whether a message of the program's is found does not matter

  static constexpr std::chrono::seconds kTimeoutToLeave{1};

  ~Pump() = default;
  bool has_left() {
    if (!thread_.joinable()) return true;
    {
      MutexLock lock(mutex_);
      is_over_ = true;
      changed_.notify_all();
      const auto is_left = [this] {
        mutex_.assert_held();
        return is_left_;
      };
      if (!changed_.wait_for(lock.held(), kTimeoutToLeave, is_left)) {
        thread_.detach();
        return false;
      }
    }
    thread_.join();
    return true;
  }
  void run() {
    MutexLock lock(mutex_);
    std::uint64_t seen = ends_.load();
    std::chrono::milliseconds pause = kShortest;
    bool is_at_work = false;
    Clock::time_point idle_since = Clock::now();
    while (!is_over_) {
      changed_.wait_for(lock.held(), pause, [this] {
        mutex_.assert_held();
        return is_over_;
      });
      const std::uint64_t now_seen = ends_.load();
      if (now_seen != seen) {  // the caller itself is at work
        seen = now_seen;
        pause = is_at_work ? std::min(2 * pause, kLongestAtWork) : kShortest;
        is_at_work = true;
        idle_since = Clock::now();
        continue;
      }
      lock.unlock();
      if (const Runtime::Turn turn(runtime_); turn) push();
      lock.lock();
      pause = is_at_work ? kShortest : std::min(2 * pause, kLongest);
      is_at_work = false;
      if (Clock::now() - idle_since > limit_) sleep(&lock, seen);
    }
    is_left_ = true;
    changed_.notify_all();
  }
  void wake() {
    const MutexLock lock(mutex_);
    is_asleep_.store(false);
    changed_.notify_one();
  }
  // Until something ends or this does.
  void sleep(MutexLock* lock, std::uint64_t seen) RODA_REQUIRES(mutex_) {
    is_asleep_.store(true);
    while (!is_over_ && ends_.load() == seen) changed_.wait(lock->held());
    is_asleep_.store(false);
  }

  Runtime& runtime_;
  std::atomic<std::uint64_t> ends_{0};
  std::atomic<bool> is_asleep_{false};
  Mutex mutex_;
  std::condition_variable changed_;
  std::chrono::nanoseconds limit_ RODA_GUARDED_BY(mutex_){1};  // the longest of the groups'
  bool is_over_ RODA_GUARDED_BY(mutex_) = false;
  bool is_left_ RODA_GUARDED_BY(mutex_) = false;  // the thread is through
  std::thread thread_;
};

}  // namespace roda::mpi::RODA_MPI_FLAVOUR
