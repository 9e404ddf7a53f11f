#include "tests/doubles/cuda/stream.h"

#include "tests/doubles/cuda/memory.h"

namespace roda::cuda_double {

std::atomic<cuda::Result>& sticky_error() {
  static std::atomic<cuda::Result> error{cuda::kSuccess};
  return error;
}

Puts& puts() {
  static Puts all;
  return all;
}

WorkQueue::WorkQueue(int device)
    : device_(device), delay_(setting("RODA_CUDA_DOUBLE_DELAY_US", 0)), thread_([this] { run(); }) {}

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void WorkQueue::add(const char* what, std::function<void()> work, bool is_kernel) {
  {
    const std::lock_guard lock(mutex_);
    items_.push_back({Order::get().put(actor_, what, is_kernel ? device_ : -1), std::move(work)});
  }
  changed_.notify_all();
}

void WorkQueue::add_event(std::function<void()> work, Clock* clock, Clock* early) {
  {
    const std::lock_guard lock(mutex_);
    *clock = Order::get().recorded(actor_, false);
    *early = Order::get().recorded(actor_, true);
    items_.push_back({{}, std::move(work)});
  }
  changed_.notify_all();
}

void WorkQueue::add_wait(std::function<void()> work, const Clock* event) {
  {
    const std::lock_guard lock(mutex_);
    if (event != nullptr) Order::get().wait(actor_, *event);
    items_.push_back({{}, std::move(work)});
  }
  changed_.notify_all();
}

bool WorkQueue::is_idle() {
  const std::lock_guard lock(mutex_);
  return items_.empty() && !is_busy_;
}

void WorkQueue::wait_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return items_.empty() && !is_busy_; });
}

void WorkQueue::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !items_.empty() || is_ending_; });
    if (items_.empty()) return;
    const Item item = std::move(items_.front());
    items_.pop_front();
    is_busy_ = true;
    lock.unlock();
    if (delay_.count() > 0) std::this_thread::sleep_for(delay_);
    running() = &item.order;
    item.run();
    running() = nullptr;
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
