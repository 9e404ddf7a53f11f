#include "core/engine/baton.h"

#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>
#include <utility>

namespace roda::engine {

// std::atomic's own wait knows no limit.
void Baton::wait_pulse(std::uint32_t seen, int limit_ms) {
  const timespec limit{.tv_sec = limit_ms / 1000, .tv_nsec = limit_ms % 1000 * 1'000'000L};
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &pulse_, FUTEX_WAIT_PRIVATE, seen, limit_ms < 0 ? nullptr : &limit, nullptr, 0);
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

void Baton::wake_sleepers() { syscall(SYS_futex, &pulse_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0); }

Status Bells::open(Bells* bells) {
  for (const auto& [poll, wake] :
       {std::pair(&bells->engine_poll_, &bells->engine_wake_), std::pair(&bells->holder_poll_, &bells->holder_wake_)}) {
    poll->reset(epoll_create1(EPOLL_CLOEXEC));
    if (!*poll) return Status::of_errno("epoll_create1");
    wake->reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!*wake) return Status::of_errno("eventfd");
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = wake->get();
    if (epoll_ctl(poll->get(), EPOLL_CTL_ADD, wake->get(), &event) != 0) return Status::of_errno("epoll_ctl");
  }
  return {};
}

void Bells::ring(const UniqueFd& eventfd) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(eventfd.get(), &one, sizeof one);
}

bool Bells::sleep_as_engine(int timeout_ms) const {
  bool called = false;
  const bool rang = wait(engine_poll_, engine_wake_, timeout_ms, &called);
  // Who saw the mark and did not ring: what was there to be done then is seen from here on.
  if (called) is_called_->exchange(false, std::memory_order_seq_cst);
  return rang;
}

bool Bells::sleep_as_holder(int timeout_ms) const {
  bool called = false;
  return wait(holder_poll_, holder_wake_, timeout_ms, &called);
}

bool Bells::wait(const UniqueFd& poll, const UniqueFd& wake, int timeout_ms, bool* called) {
  epoll_event events[8];
  const int n = epoll_wait(poll.get(), events, 8, timeout_ms);
  for (int i = 0; i < n; ++i) {
    if (events[i].data.fd != wake.get()) continue;
    std::uint64_t count = 0;
    *called = read(wake.get(), &count, sizeof count) > 0 || *called;
  }
  return n > 0;
}

namespace {
constexpr std::uint32_t kRings = static_cast<std::uint32_t>(EPOLLIN) | static_cast<std::uint32_t>(EPOLLET);
constexpr std::uint32_t kRingsOnce = kRings | static_cast<std::uint32_t>(EPOLLONESHOT);
}  // namespace

Status Bells::watch(int fd) { return watch(fd, kRings); }

Status Bells::watch_transport(int fd) {
  if (fd >= 0) transports_.push_back(fd);
  return watch(fd, EPOLLONESHOT);
}

Status Bells::watch(int fd, std::uint32_t engine_events) {
  if (fd < 0) return {};
  epoll_event event{};
  event.data.fd = fd;
  event.events = kRings;
  bool watched = epoll_ctl(holder_poll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  event.events = engine_events;
  watched = watched && epoll_ctl(engine_poll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  return watched ? Status() : Status::of_errno("epoll_ctl");
}

void Bells::listen() const {
  for (const int fd : transports_) {
    epoll_event event{};
    event.data.fd = fd;
    event.events = kRingsOnce;
    epoll_ctl(engine_poll_.get(), EPOLL_CTL_MOD, fd, &event);
  }
}

}  // namespace roda::engine
