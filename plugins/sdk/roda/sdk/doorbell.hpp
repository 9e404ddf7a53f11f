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
// exchange the same word, so one comes first: either the ring sees the arming, or the arming sees the ring and with it
// the result.
class Doorbell {
 public:
  Doorbell() : fd_(check_system(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")) {}
  ~Doorbell() { ::close(fd_); }
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  int fd() const { return fd_; }

  void ring() {
    if (!armed_.exchange(false, std::memory_order_acq_rel)) return;
    const std::uint64_t one = 1;
    // Fails only when the counter is at its limit, and then the descriptor is readable anyway.
    [[maybe_unused]] ssize_t written = ::write(fd_, &one, sizeof one);
  }

  void arm() {
    std::uint64_t count = 0;
    [[maybe_unused]] ssize_t taken = ::read(fd_, &count, sizeof count);
    armed_.exchange(true, std::memory_order_acq_rel);
  }

  void disarm() { armed_.exchange(false, std::memory_order_acq_rel); }

 private:
  int fd_;
  std::atomic<bool> armed_{false};
};

}  // namespace roda::sdk
