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
#include <vector>

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
  void expect(const std::function<void()>& loop);
  // It has ended already, and nobody is called here.
  void forget();
  void ended(const Continuation& continuation);
  // What is expected has ended; no other comes. Blocks until the thread has called everybody.
  void close();

  // --- the loop ---
  // Until a handle is expected. False: none will be any more.
  bool await();
  // Whether somebody is to be called, or nobody is expected.
  bool is_due() const;
  std::vector<Continuation> take();

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
