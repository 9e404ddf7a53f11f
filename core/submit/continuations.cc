#include "core/submit/continuations.h"

#include <utility>

namespace roda::engine {

void Continuations::expect(const std::function<void()>& loop) {
  const MutexLock lock(mutex_);
  num_expected_.fetch_add(1, std::memory_order_relaxed);
  if (!thread_.joinable() && !is_closed_) thread_ = std::thread(loop);
  expects_.notify_one();
}

void Continuations::forget() {
  const MutexLock lock(mutex_);
  num_expected_.fetch_sub(1, std::memory_order_release);
}

void Continuations::ended(const Continuation& continuation) {
  const MutexLock lock(mutex_);
  ended_.push_back(continuation);
  has_ended_.store(true, std::memory_order_release);
}

void Continuations::close() {
  std::thread thread;
  {
    const MutexLock lock(mutex_);
    is_closed_ = true;
    thread = std::move(thread_);
    expects_.notify_one();
  }
  if (thread.joinable()) thread.join();
}

bool Continuations::await() {
  MutexLock lock(mutex_);
  expects_.wait(lock.held(), [this] {
    mutex_.assert_held();
    return is_closed_ || num_expected_.load(std::memory_order_relaxed) != 0;
  });
  return num_expected_.load(std::memory_order_relaxed) != 0;
}

bool Continuations::is_due() const {
  return has_ended_.load(std::memory_order_acquire) || num_expected_.load(std::memory_order_acquire) == 0;
}

std::vector<Continuation> Continuations::take() {
  const MutexLock lock(mutex_);
  num_expected_.fetch_sub(ended_.size(), std::memory_order_relaxed);
  has_ended_.store(false, std::memory_order_relaxed);
  return std::exchange(ended_, {});
}

}  // namespace roda::engine
