#include "transports/mpi/pump.h"

#include <algorithm>

#include "plugins/base/helper_thread.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {
namespace {

// Between two calls, at first and after a while: what got stuck meanwhile is late by so much.
constexpr std::chrono::milliseconds kShortest{1};
constexpr std::chrono::milliseconds kLongest{64};
// Between two looks at a caller that is at work, for each takes the core from it for a moment. It is silent when
// nothing ended between two of them.
constexpr std::chrono::milliseconds kLongestAtWork{8};
constexpr int kProbeTag = 0;  // whether a message of the program's is found does not matter

}  // namespace

Pump::~Pump() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Pump::serve(std::chrono::nanoseconds limit) {
  // A program that called MPI from one thread at a time would not know of this one.
  if (!runtime_.may_call_at_any_time()) return;
  const MutexLock lock(mutex_);
  limit_ = limit.count() == 0 ? std::chrono::nanoseconds::max() : std::max(limit_, limit);
  if (!thread_.joinable()) thread_ = start_thread("roda-mpi-pump", [this] { run(); });
}

void Pump::wake() {
  const MutexLock lock(mutex_);
  is_asleep_.store(false);
  changed_.notify_one();
}

void Pump::run() {
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
    {
      const Runtime::Turn turn(runtime_);
      if (turn) push();
    }
    pause = is_at_work ? kShortest : std::min(2 * pause, kLongest);
    is_at_work = false;
    if (Clock::now() - idle_since > limit_) sleep(&lock, seen);
  }
}

void Pump::sleep(MutexLock* lock, std::uint64_t seen) {
  is_asleep_.store(true);
  while (!is_over_ && ends_.load() == seen) changed_.wait(lock->held());
  is_asleep_.store(false);
}

void Pump::push() {
  if (runtime_.has_ended()) return;
  const Library& mpi = runtime_.library();
  int found = 0;
  mpi.Iprobe(MPI_ANY_SOURCE, kProbeTag, mpi.comm_world, &found, MPI_STATUS_IGNORE);
}

}  // namespace roda::mpi::RODA_MPI_FLAVOUR
