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

}  // namespace roda
