#include "transports/loop/context.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
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

Context::Context(const roda_host* host)
    : settings_(sdk::read_settings(kSettings, host)),
      timer_(sdk::check_system(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), "timerfd_create")),
      poll_(sdk::check_system(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")) {
  for (const int fd : {timer_.get(), doorbell_.fd()}) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    sdk::check_system(::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
  }
}

bool Context::arm() {
  doorbell_.arm();
  Clock::time_point next = Clock::time_point::max();
  for (const Group* group : groups_) next = std::min(next, group->next_due());
  const bool waits = next != Clock::time_point::max();
  if (waits && next <= Clock::now()) return false;
  const auto since_epoch = waits ? next.time_since_epoch() : Clock::duration::zero();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_epoch);
  itimerspec when{};
  when.it_value.tv_sec = seconds.count();
  when.it_value.tv_nsec = std::chrono::nanoseconds(since_epoch - seconds).count();
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
  return true;
}

int Context::progress() {
  int delivered = 0;
  for (Group* group : groups_) delivered += group->progress();
  return delivered;
}

bool Context::count_operation() {
  if (settings_.again_every > 0 && ++attempts_ % settings_.again_every == 0) return true;
  if (settings_.fail_after >= 0 && ++operations_ > settings_.fail_after) {
    throw sdk::Failure(RODA_ERR_PEER, "injected: RODA_TEST_LOOP_FAIL_AFTER=" + std::to_string(settings_.fail_after));
  }
  return false;
}

}  // namespace roda::loop

const roda_transport* roda_loop_transport() { return &roda::loop::kTransport; }
