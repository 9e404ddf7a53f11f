// Keeps descriptors out of forked children (DataLoader workers): a connection that a child holds open hides its owner's
// death from the peers.
#pragma once

namespace roda {

// From construction to destruction the descriptor is replaced by /dev/null in every child forked by this process (the
// number stays taken, so a late close in the child hits nothing else). Does not own it: destroy the guard before the
// descriptor is closed. Any thread; movable.
class ForkGuard {
 public:
  ForkGuard() = default;
  explicit ForkGuard(int fd);
  ForkGuard(ForkGuard&& other) noexcept;
  ForkGuard& operator=(ForkGuard&& other) noexcept;
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;
  ~ForkGuard();

 private:
  int fd_ = -1;
};

// True in a process that was forked from one that had used a guard.
bool is_forked_child();

}  // namespace roda
