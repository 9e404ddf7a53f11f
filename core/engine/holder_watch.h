// Ends a process that a failure of the job has locked up. A transport that does not bound what an abort ends (without
// RODA_CAP_FAULT_TOLERANT) may never return from a call to the holder of the baton, and with it nobody in this process
// hears of the failure: Open MPI 4.1 takes one of its own locks twice when a peer's connection breaks. No thread can be
// taken out of there.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "core/engine/baton.h"
#include "plugins/base/helper_thread.h"
#include "plugins/base/mutex.h"

namespace roda::engine {

class HolderWatch {
 public:
  // From then on a thread looks from time to time, until this is destroyed. `give_up` is called when one turn of the
  // holder's has lasted for `timeout` during which `has_failed` said yes, and again at each look until that changes.
  // Looks are counted, not time: a process that is stopped meanwhile is not blamed for it. Throws std::runtime_error
  // where no thread is to be had.
  HolderWatch(const Baton& baton, std::chrono::milliseconds timeout, std::chrono::milliseconds look,
              std::function<bool()> has_failed, std::function<void()> give_up)
      : baton_(baton),
        look_(look),
        looks_(timeout / look),
        has_failed_(std::move(has_failed)),
        give_up_(std::move(give_up)),
        thread_(start_thread("roda-watch", [this] { run(); })) {}
  ~HolderWatch() {
    {
      const MutexLock lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  HolderWatch(const HolderWatch&) = delete;
  HolderWatch& operator=(const HolderWatch&) = delete;

 private:
  void run() {
    std::optional<std::uint64_t> seen;
    std::int64_t looks = 0;
    MutexLock lock(mutex_);
    while (!is_over_) {
      changed_.wait_for(lock.held(), look_, [this] {
        mutex_.assert_held();
        return is_over_;
      });
      const std::optional<std::uint64_t> turn = baton_.turn_under_way();
      looks = turn && turn == seen && has_failed_() ? looks + 1 : 0;
      seen = turn;
      if (looks > looks_) give_up_();
    }
  }

  const Baton& baton_;
  const std::chrono::milliseconds look_;
  const std::int64_t looks_;
  const std::function<bool()> has_failed_;
  const std::function<void()> give_up_;
  Mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ RODA_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace roda::engine
