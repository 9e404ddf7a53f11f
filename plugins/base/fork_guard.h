// Keeps descriptors out of forked children (DataLoader workers): a connection that a child holds open hides its owner's
// death from the peers.
#pragma once

#include <utility>
#include <vector>

namespace roda {

// From construction to destruction the descriptor is replaced by /dev/null in every child forked by this process (the
// number stays taken, so a late close in the child hits nothing else). Does not own it: destroy the guard before the
// descriptor is closed. Any thread; movable.
class ForkGuard {
 public:
  ForkGuard() = default;
  explicit ForkGuard(int fd);
  ForkGuard(ForkGuard&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ForkGuard& operator=(ForkGuard&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;
  ~ForkGuard();

 private:
  int fd_ = -1;
};

// True in a process that was forked from one that had used a guard, or had called watch_forks().
bool is_forked_child();
void watch_forks();

// The sockets of a library, which closes them when it likes, so that a number may have been reused: a child closes one
// only if it still is the same socket.
//
// Marks them close-on-exec too, and remembers them as `owner`'s, in place of those it had. What is no socket is left
// alone. Any thread.
void guard_sockets(const void* owner, const std::vector<int>& fds);
void forget_sockets(const void* owner);

// 0: not a socket.
unsigned long socket_inode(int fd);

}  // namespace roda
