#include "transports/loop/context.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <roda/sdk/transport.hpp>

#include <algorithm>

#include "transports/loop/group.h"
#include "transports/loop/loop.h"

namespace roda::loop {
namespace {

constexpr std::uint64_t kCapabilities = RODA_CAP_P2P | RODA_CAP_SIGNAL | RODA_CAP_GET | RODA_CAP_PUT | RODA_CAP_MAP |
                                        RODA_CAP_ALLOCATE | RODA_CAP_SAME_HOST | RODA_CAP_IN_PROCESS |
                                        RODA_CAP_FAULT_TOLERANT | RODA_CAP_WINDOW_ANY;
constexpr roda_transport kTransport = sdk::transport<Context, Group, kCapabilities>(
    "loop", "ranks as threads of one process, for tests", RODA_PROGRESS_FD);

}  // namespace

Context::Context(const roda_host* host) : settings_(sdk::read_settings(kSettings, host)) { open_timer(); }

Context::~Context() {
  if (timer_fd_ >= 0) ::close(timer_fd_);
  if (poll_fd_ >= 0) ::close(poll_fd_);
}

void Context::open_timer() {
  timer_fd_ = sdk::check_system(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), "timerfd_create");
  poll_fd_ = sdk::check_system(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
  for (const int fd : {timer_fd_, doorbell_.fd()}) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    sdk::check_system(::epoll_ctl(poll_fd_, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
  }
}

bool Context::arm() {
  doorbell_.arm();
  Clock::time_point next = Clock::time_point::max();
  for (const Seat& seat : seats_) next = std::min(next, seat.hub->next_due(seat.rank));
  const bool waits = next != Clock::time_point::max();
  if (waits && next <= Clock::now()) return false;
  const auto since_epoch = waits ? next.time_since_epoch() : Clock::duration::zero();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_epoch);
  itimerspec when{};
  when.it_value.tv_sec = seconds.count();
  when.it_value.tv_nsec = std::chrono::nanoseconds(since_epoch - seconds).count();
  ::timerfd_settime(timer_fd_, TFD_TIMER_ABSTIME, &when, nullptr);
  return true;
}

int Context::progress() {
  int delivered = 0;
  for (const Seat& seat : seats_) delivered += seat.hub->deliver_due(seat.rank);
  return delivered;
}

bool Context::count_operation() {
  if (settings_.again_every > 0 && ++attempts_ % settings_.again_every == 0) return true;
  if (settings_.fail_after >= 0 && ++operations_ > settings_.fail_after) {
    throw sdk::Failure(RODA_ERR_PEER, "injected: RODA_TEST_LOOP_FAIL_AFTER=" + std::to_string(settings_.fail_after));
  }
  return false;
}

void Context::remove(Hub* hub) {
  std::erase_if(seats_, [hub](const Seat& seat) { return seat.hub == hub; });
}

}  // namespace roda::loop

const roda_transport* roda_loop_transport() { return &roda::loop::kTransport; }
