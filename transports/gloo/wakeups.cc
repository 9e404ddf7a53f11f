#include "transports/gloo/wakeups.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <roda/sdk/error.hpp>

#include <algorithm>

namespace roda::gloo {
namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

constexpr microseconds kFirstTick{200};
constexpr microseconds kLastTick{10'000};

// Adding what is there already and removing what is gone are no errors here.
void change(int epoll, int operation, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  ::epoll_ctl(epoll, operation, fd, &event);
}

}  // namespace

SocketSet::SocketSet() : epoll_(sdk::check_system(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")) {}

void SocketSet::add(int socket) {
  if (socket >= 0) change(epoll_.get(), EPOLL_CTL_ADD, socket);
}

Wakeups::Wakeups()
    : timer_(sdk::check_system(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), "timerfd_create")),
      epoll_(sdk::check_system(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")) {
  change(epoll_.get(), EPOLL_CTL_ADD, doorbell_.fd());
  change(epoll_.get(), EPOLL_CTL_ADD, timer_.get());
}

void Wakeups::include(const SocketSet& sockets) { change(epoll_.get(), EPOLL_CTL_ADD, sockets.fd()); }
void Wakeups::exclude(const SocketSet& sockets) { change(epoll_.get(), EPOLL_CTL_DEL, sockets.fd()); }

// Also takes back what the timer showed.
void Wakeups::set_timer(std::chrono::nanoseconds time) {
  itimerspec once{};
  once.it_value.tv_nsec = time.count();
  ::timerfd_settime(timer_.get(), 0, &once, nullptr);
}

void Wakeups::tick(bool has_moved) {
  if (has_moved) pace_ = microseconds(0);
  const auto now = steady_clock::now();
  if (ticks_ && now < next_tick_) return;
  pace_ = std::clamp(pace_ * 2, kFirstTick, kLastTick);
  next_tick_ = now + pace_;
  ticks_ = true;
  set_timer(pace_);
}

void Wakeups::tick_at(steady_clock::time_point time) {
  next_tick_ = time;
  ticks_ = true;
  set_timer(std::max<std::chrono::nanoseconds>(time - steady_clock::now(), microseconds(1)));
}

void Wakeups::stop_ticking() {
  if (ticks_) set_timer(microseconds(0));
  ticks_ = false;
}

}  // namespace roda::gloo
