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
#include "tests/doubles/cuda/order.h"

namespace roda::cuda_double {

// The error that contexts are left in; for tests.
std::atomic<cuda::Result>& sticky_error();

// What was put on streams, as roda_cuda_double_puts.
struct Puts {
  std::atomic<unsigned long long> kernels{0}, events{0}, waits{0}, questions{0};
};
Puts& puts();

// Any thread. RODA_CUDA_DOUBLE_DELAY_US, when it is made: each piece of work takes that long, at least.
class WorkQueue {
 public:
  explicit WorkQueue(int device);
  // Does what is queued first.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Kernels touch memory of their device alone.
  void add(const char* what, std::function<void()> work, bool is_kernel);
  // An event: its clock, and that without the last piece of work.
  void add_event(std::function<void()> work, Clock* clock, Clock* early);
  // What comes next is behind the event, unless that is null.
  void add_wait(std::function<void()> work, const Clock* event);
  bool is_idle();
  void wait_idle();
  Actor actor() const { return actor_; }

 private:
  struct Item {
    Work order;
    std::function<void()> run;
  };
  void run();

  const int device_;
  const Actor actor_ = Order::get().add_stream();
  const std::chrono::microseconds delay_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
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
