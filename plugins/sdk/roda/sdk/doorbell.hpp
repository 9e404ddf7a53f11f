// The descriptor that a transport's user sleeps on, without a system call per event while nobody sleeps.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>
#include <roda/sdk/error.hpp>

#include <atomic>
#include <cstdint>

namespace roda::sdk {

// ring(): any thread. arm(), disarm(), fd(): the context's caller.
//
// No wake-up is lost: the producer publishes its result and then rings; the sleeper arms and then tests once more. Both
// sides are sequentially consistent, so either the test sees the result or the ring sees the arming.
class Doorbell {
 public:
  Doorbell() : fd_(check_system(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")) {}
  ~Doorbell() { ::close(fd_); }
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  int fd() const { return fd_; }

  void ring() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!armed_.load(std::memory_order_relaxed) || !armed_.exchange(false)) return;
    const std::uint64_t one = 1;
    // Fails only when the counter is at its limit, and then the descriptor is readable anyway.
    [[maybe_unused]] ssize_t written = ::write(fd_, &one, sizeof one);
  }

  void arm() {
    std::uint64_t count = 0;
    [[maybe_unused]] ssize_t taken = ::read(fd_, &count, sizeof count);
    armed_.store(true);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }

  void disarm() { armed_.store(false); }

 private:
  int fd_;
  std::atomic<bool> armed_{false};
};

}  // namespace roda::sdk
