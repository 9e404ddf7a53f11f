// The descriptor that a transport's caller sleeps on: readable while one of those it watches is, or after ring().
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "plugins/base/fork_guard.h"
#include "plugins/base/status.h"
#include "plugins/base/unique_fd.h"

namespace roda {

// ring(), in_owner(): any thread; the rest one at a time. Forked children do not keep the descriptors.
class EventSet {
 public:
  // First.
  [[nodiscard]] Status open();

  int fd() const { return epoll_.get(); }
  // `what` comes back with the descriptor's events, which are epoll's.
  [[nodiscard]] Status watch(int fd, void* what, std::uint32_t events);
  // By hand, not by closing: a child that is between fork and exec keeps a closed descriptor's file alive.
  void unwatch(int fd);

  void ring();
  // Takes back what ring() did so far.
  void clear_rings();
  // An eventfd; who writes to it rings, in whatever process.
  int bell_fd() const { return bell_.get(); }

  // False in a process that was forked since.
  bool in_owner() const;

 private:
  pid_t owner_ = 0;
  UniqueFd bell_;
  UniqueFd epoll_;
  ForkGuard bell_guard_;
  ForkGuard epoll_guard_;
};

// Rings another process's, by its bell_fd().
void ring_bell(int bell_fd);

}  // namespace roda
