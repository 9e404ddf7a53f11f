#include "tests/doubles/cuda/stream.h"

#include "tests/doubles/cuda/memory.h"

namespace roda::cuda_double {

Condition& condition() {
  static Condition the_one;
  return the_one;
}

WorkQueue::WorkQueue() : delay_(setting("RODA_CUDA_DOUBLE_DELAY_US", 0)), thread_([this] { run(); }) {}

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void WorkQueue::add(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
  }
  changed_.notify_all();
}

bool WorkQueue::is_idle() {
  const std::lock_guard lock(mutex_);
  return work_.empty() && !is_busy_;
}

void WorkQueue::wait_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return work_.empty() && !is_busy_; });
}

void WorkQueue::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !work_.empty() || is_ending_; });
    if (work_.empty()) return;
    const std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    is_busy_ = true;
    lock.unlock();
    if (delay_.count() > 0) std::this_thread::sleep_for(delay_);
    work();
    lock.lock();
    is_busy_ = false;
    changed_.notify_all();
  }
}

void Mark::set() {
  const std::lock_guard lock(mutex_);
  is_set_.store(true, std::memory_order_release);
  changed_.notify_all();
}

void Mark::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_set(); });
}

}  // namespace roda::cuda_double
