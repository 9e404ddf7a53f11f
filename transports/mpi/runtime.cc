#include "transports/mpi/runtime.h"

#include <unistd.h>
#include <roda/sdk/error.hpp>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "plugins/base/helper_thread.h"
#include "plugins/base/mutex.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {
namespace {

const char* level_name(int level) {
  if (level == MPI_THREAD_SINGLE) return "MPI_THREAD_SINGLE";
  if (level == MPI_THREAD_FUNNELED) return "MPI_THREAD_FUNNELED";
  return level == MPI_THREAD_SERIALIZED ? "MPI_THREAD_SERIALIZED" : "MPI_THREAD_MULTIPLE";
}

// Ends the process if it is not called off in time: MPI_Finalize waits for every rank, dead ones too.
class Watchdog {
 public:
  Watchdog(std::chrono::milliseconds patience, int status, const char* why) {
    thread_ = start_thread("roda-mpi-exit", [this, patience, status, why] {
      MutexLock lock(mutex_);
      const auto called_off = [this] {
        mutex_.assert_held();
        return called_off_;
      };
      if (over_.wait_for(lock.held(), patience, called_off)) return;
      std::fprintf(stderr,
                   "roda: MPI_Finalize was called %d s ago (HOROVOD_ABORT_TIMEOUT_SECONDS), and %s; this process ends "
                   "now\n",
                   static_cast<int>(patience.count() / 1000), why);
      std::fflush(nullptr);
      ::_exit(status);
    });
  }
  ~Watchdog() {
    {
      const MutexLock lock(mutex_);
      called_off_ = true;
    }
    over_.notify_one();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  Mutex mutex_;
  std::condition_variable over_;
  bool called_off_ RODA_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

bool is_set(const roda_host* host, const char* name) {
  const char* text = host->knob(host->self, name);
  return text != nullptr && std::atoi(text) > 0;
}

}  // namespace

Runtime& Runtime::get() {
  static auto* runtime = new Runtime;
  return *runtime;
}

void Runtime::open() {
  const MutexLock lock(starting_);
  if (!is_open_.load()) library_.open();
  is_open_.store(true, std::memory_order_release);
}

bool Runtime::has_ended() {
  int finalised = 0;
  library_.Finalized(&finalised);
  return finalised != 0 || is_over_.load();
}

void Runtime::start(const roda_host* host) {
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

void Runtime::initialise(bool one_thread) {
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

void Runtime::inspect(const roda_host* host) {
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
  const Launch launch = find_launch(kFlavour, [](const char* name) { return std::getenv(name); });
  job_ = launch.job.empty() ? "world of " + std::to_string(world_size_) : launch.job;
  if (const char* text = host->knob(host->self, "HOROVOD_ABORT_TIMEOUT_SECONDS")) {
    const double seconds = std::atof(text);
    if (seconds > 0) patience_ = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
  }
}

void Runtime::at_exit(int status, void* self) {
  auto* runtime = static_cast<Runtime*>(self);
  // A forked child inherits the handler but not MPI.
  if (runtime->owner_pid_ == ::getpid()) runtime->finalise(status);
}

void Runtime::finalise(int status) {
  const Turn turn(*this, patience_);
  const bool nobody_inside = turn && blocked_.load() == 0;
  is_over_.store(true);
  if (!nobody_inside) return;
  const Watchdog watchdog(patience_, status, "some rank has not come to it or is dead");
  library_.Finalize();
}

// MPI_Finalize begins by deleting the attributes of MPI_COMM_SELF: that is the standard's way to be told of it.
void Runtime::watch_finalise() {
  const auto never_copied = [](MPI_Comm, int, void*, void*, void*, int* copied) -> int {
    *copied = 0;
    return MPI_SUCCESS;
  };
  int key = 0;
  check(library_, library_.Comm_create_keyval(never_copied, &Runtime::at_finalise, &key, this),
        "MPI_Comm_create_keyval");
  check(library_, library_.Comm_set_attr(library_.comm_self, key, this), "MPI_Comm_set_attr");
}

int Runtime::at_finalise(MPI_Comm, int, void*, void* self) {
  auto* runtime = static_cast<Runtime*>(self);
  if (runtime->owner_pid_ != ::getpid()) return MPI_SUCCESS;
  const Turn last(*runtime, runtime->patience_);  // nobody of ours is inside, and nobody comes again
  runtime->is_over_.store(true);
  // Not called off by anything but the process's end: MPI_Finalized may be true long before MPI_Finalize is over.
  if (runtime->someone_is_lost_.load()) {
    new Watchdog(runtime->patience_, EXIT_FAILURE, "a rank was lost, for which it may wait for ever");
  }
  return MPI_SUCCESS;
}

}  // namespace roda::mpi::RODA_MPI_FLAVOUR
