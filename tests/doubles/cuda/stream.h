// Streams of the CUDA double: work in order, on a thread of each stream's own, so that it really is asynchronous.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "plugins/base/cuda/types.h"

namespace roda::cuda_double {

// What cuStreamBeginCapture would set and lead to, and the error that a context is left in; for tests.
struct Condition {
  std::atomic<cuda::Result> sticky{cuda::kSuccess};
  std::atomic<int> captures{0};  // as roda_cuda_double_set_capturing
  std::atomic<unsigned> captured{0};
  std::atomic<unsigned long long> kernels{0}, events{0}, waits{0};  // as roda_cuda_double_puts
};
Condition& condition();

// Any thread. RODA_CUDA_DOUBLE_DELAY_US, when it is made: each piece of work takes that long, at least.
class WorkQueue {
 public:
  WorkQueue();
  // Does what is queued first.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void add(std::function<void()> work);
  bool is_idle();
  void wait_idle();

 private:
  void run();

  const std::chrono::microseconds delay_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool is_busy_ = false;
  bool is_ending_ = false;
  std::thread thread_;
};

// One recording of an event.
class Mark {
 public:
  void set();
  bool is_set() const { return is_set_.load(std::memory_order_acquire); }
  void wait();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> is_set_{false};
};

}  // namespace roda::cuda_double
