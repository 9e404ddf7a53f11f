// Submitters that are called when their handle ends, instead of waiting for it, in the order of the ends.
//
// Any thread; locks itself.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "plugins/base/helper_thread.h"
#include "plugins/base/mutex.h"

namespace roda::engine {

struct Continuation {
  void (*call)(void* context, std::uint64_t handle) = nullptr;  // null: nobody is called
  void* context = nullptr;
  std::uint64_t handle = 0;
};

class Continuations {
 public:
  ~Continuations() { close(); }

  // One more handle that will end. The first time a thread is made that runs `loop`.
  void expect(const std::function<void()>& loop) {
    const MutexLock lock(mutex_);
    num_expected_.fetch_add(1, std::memory_order_relaxed);
    if (!thread_.joinable() && !is_closed_) thread_ = start_thread("roda-then", loop);
    expects_.notify_one();
  }

  // The handle that was expected has ended already: nobody is called for it.
  void forget() {
    const MutexLock lock(mutex_);
    num_expected_.fetch_sub(1, std::memory_order_release);
  }

  void ended(const Continuation& continuation) {
    const MutexLock lock(mutex_);
    ended_.push_back(continuation);
    has_ended_.store(true, std::memory_order_release);
  }

  // All handles that were expected have ended, and no other comes. Blocks until the thread has called everybody.
  void close() {
    std::thread thread;
    {
      const MutexLock lock(mutex_);
      is_closed_ = true;
      thread = std::move(thread_);
      expects_.notify_one();
    }
    if (thread.joinable()) thread.join();
  }

  // --- the loop ---
  // Until a handle is expected. False: none will be any more.
  bool await() {
    MutexLock lock(mutex_);
    expects_.wait(lock.held(), [this] {
      mutex_.assert_held();
      return is_closed_ || num_expected_.load(std::memory_order_relaxed) != 0;
    });
    return num_expected_.load(std::memory_order_relaxed) != 0;
  }

  // Whether somebody is to be called, or nobody is expected.
  bool is_due() const {
    return has_ended_.load(std::memory_order_acquire) || num_expected_.load(std::memory_order_acquire) == 0;
  }

  std::vector<Continuation> take() {
    const MutexLock lock(mutex_);
    num_expected_.fetch_sub(ended_.size(), std::memory_order_relaxed);
    has_ended_.store(false, std::memory_order_relaxed);
    return std::exchange(ended_, {});
  }

 private:
  Mutex mutex_;
  std::condition_variable expects_;
  std::vector<Continuation> ended_ RODA_GUARDED_BY(mutex_);
  bool is_closed_ RODA_GUARDED_BY(mutex_) = false;
  std::thread thread_ RODA_GUARDED_BY(mutex_);
  // Written under the mutex, read by anybody.
  std::atomic<std::size_t> num_expected_{0};  // and not taken yet
  std::atomic<bool> has_ended_{false};
};

}  // namespace roda::engine
