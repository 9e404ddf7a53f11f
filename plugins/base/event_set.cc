#include "plugins/base/event_set.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace roda {

Status EventSet::open() {
  owner_ = ::getpid();
  bell_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell_) return Status::of_errno("eventfd");
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return Status::of_errno("epoll_create1");
  bell_guard_ = ForkGuard(bell_.get());
  epoll_guard_ = ForkGuard(epoll_.get());
  return watch(bell_.get(), nullptr, EPOLLIN);
}

Status EventSet::watch(int fd, void* what, std::uint32_t events) {
  epoll_event event{.events = events, .data = {.ptr = what}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return Status::of_errno("watching a descriptor");
  return {};
}

void EventSet::unwatch(int fd) {
  epoll_event unused{};
  static_cast<void>(::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, &unused));
}

void EventSet::ring() { ring_bell(bell_.get()); }

void EventSet::clear_rings() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = ::read(bell_.get(), &count, sizeof count);
}

bool EventSet::in_owner() const { return ::getpid() == owner_; }

void ring_bell(int bell_fd) {
  const std::uint64_t one = 1;
  // Fails only when the counter is at its limit, and then the descriptor is readable anyway.
  [[maybe_unused]] const ssize_t written = ::write(bell_fd, &one, sizeof one);
}

}  // namespace roda
