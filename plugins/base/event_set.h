// The descriptor that a transport's caller sleeps on: readable while one of those it watches is, or after ring(). A
// transport's context derives from it.
#pragma once

#include <sys/epoll.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>

#include "plugins/base/fork_guard.h"
#include "plugins/base/status.h"
#include "plugins/base/unique_fd.h"

namespace roda {

// Rings another process's, by its bell_fd().
inline void ring_bell(int bell_fd) {
  const std::uint64_t one = 1;
  // Fails only when the counter is at its limit, and then the descriptor is readable anyway.
  [[maybe_unused]] const ssize_t written = ::write(bell_fd, &one, sizeof one);
}

// ring(), in_owner(): any thread; the rest one at a time. Forked children do not keep the descriptors.
class EventSet {
 public:
  // First.
  [[nodiscard]] Status open();

  int event_fd() const { return epoll_.get(); }
  // `what` comes back with the descriptor's events, which are epoll's.
  [[nodiscard]] Status watch(int fd, void* what, std::uint32_t events) {
    epoll_event event{.events = events, .data = {.ptr = what}};
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return Status::of_errno("watching a descriptor");
    return {};
  }
  // By hand, not by closing: a child that is between fork and exec keeps a closed descriptor's file alive.
  void unwatch(int fd) {
    epoll_event unused{};
    static_cast<void>(::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, &unused));
  }

  // Wakes the sleeper.
  void ring() { ring_bell(bell_.get()); }
  // Takes back what ring() did so far.
  void clear_rings() {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t taken = ::read(bell_.get(), &count, sizeof count);
  }
  // An eventfd; who writes to it rings, in whatever process.
  int bell_fd() const { return bell_.get(); }

  // False in a process that was forked since: what the context stands for is not there.
  bool in_owner() const { return ::getpid() == owner_; }

 private:
  pid_t owner_ = 0;
  UniqueFd bell_;
  UniqueFd epoll_;
  ForkGuard bell_guard_;
  ForkGuard epoll_guard_;
};

}  // namespace roda
