// One process's use of Gloo: settings, the doorbell, and the devices that its groups share.
#pragma once

#include <gloo/transport/device.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <roda/sdk/doorbell.hpp>
#include <roda/sdk/group_state.hpp>
#include <roda/sdk/settings.hpp>

#include <array>
#include <optional>

#include "plugins/base/unique_fd.h"
#include "transports/gloo/collectives.h"

namespace roda::gloo {

class Group;

// How far a group reaches. Members of one host talk over loopback: that works without a network, with any host name and
// behind any firewall, and nobody else can connect.
enum class Reach { kHost, kNetwork };

// A TCP device. `interfaces` is what HOROVOD_GLOO_IFACE says: names separated by commas, of which the first usable one
// is taken, or empty. Then kNetwork takes network_addresses(known), `known` as of GroupState::address(). Throws
// sdk::Failure only if nothing can be used, or none of the named interfaces. Any thread.
std::shared_ptr<::gloo::transport::Device> make_device(const std::string& interfaces, Reach reach,
                                                       const std::string& known);

// Adding what is there already and removing what is gone are no errors here.
inline void change(int epoll, int operation, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  ::epoll_ctl(epoll, operation, fd, &event);
}

// Sockets that may be closed at any time by somebody else.
class SocketSet {
 public:
  SocketSet() : epoll_(sdk::check_system(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")) {}
  int fd() const { return epoll_.get(); }  // readable while one of them is
  void add(int socket) {
    if (socket >= 0) change(epoll_.get(), EPOLL_CTL_ADD, socket);
  }

 private:
  UniqueFd epoll_;
};

// What the context's caller sleeps on: helper threads' ends of collectives, data for groups with messages pending, and
// a slow tick for the rest.
//
// Messages end on the caller's thread (Link::pump), which has to be awake when data come: it sleeps on Gloo's own
// sockets. The device's thread may take the data out of one and count them while the caller looks elsewhere, after
// which nothing becomes readable any more. So a sleeper with messages pending wakes by itself too, at first soon, then
// ever later.
//
// ring(): any thread, the others from the context's caller.
class Wakeups {
 public:
  Wakeups()
      : timer_(sdk::check_system(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), "timerfd_create")),
        epoll_(sdk::check_system(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")) {
    change(epoll_.get(), EPOLL_CTL_ADD, doorbell_.fd());
    change(epoll_.get(), EPOLL_CTL_ADD, timer_.get());
  }
  int fd() const { return epoll_.get(); }
  void ring() { doorbell_.ring(); }
  void arm() { doorbell_.arm(); }  // then one of tick() and stop_ticking()
  void disarm() { doorbell_.disarm(); }

  void include(const SocketSet& sockets) { change(epoll_.get(), EPOLL_CTL_ADD, sockets.fd()); }
  void exclude(const SocketSet& sockets) { change(epoll_.get(), EPOLL_CTL_DEL, sockets.fd()); }
  // Before a sleep that waits for messages; `has_moved`: something has since the last.
  void tick(bool has_moved) {
    if (has_moved) pace_ = microseconds(0);
    const auto now = steady_clock::now();
    if (ticks_ && now < next_tick_) return;
    pace_ = std::clamp(pace_ * 2, kFirstTick, kLastTick);
    next_tick_ = now + pace_;
    ticks_ = true;
    set_timer(pace_);
  }
  void tick_at(std::chrono::steady_clock::time_point time) {
    next_tick_ = time;
    ticks_ = true;
    set_timer(std::max<std::chrono::nanoseconds>(time - steady_clock::now(), microseconds(1)));
  }
  void stop_ticking() {
    if (ticks_) set_timer(microseconds(0));
    ticks_ = false;
  }

 private:
  using steady_clock = std::chrono::steady_clock;
  using microseconds = std::chrono::microseconds;
  static constexpr microseconds kFirstTick{200}, kLastTick{10'000};

  sdk::Doorbell doorbell_;
  UniqueFd timer_;
  UniqueFd epoll_;
  bool ticks_ = false;
  std::chrono::steady_clock::time_point next_tick_{};
  std::chrono::microseconds pace_{0};

  // Also takes back what the timer showed.
  void set_timer(std::chrono::nanoseconds time) {
    itimerspec once{};
    once.it_value.tv_nsec = time.count();
    ::timerfd_settime(timer_.get(), 0, &once, nullptr);
  }
};

// notify() and device() from any thread, the rest from the context's caller.
class Context : public sdk::GroupList<Group> {
 public:
  explicit Context(const roda_host* host) : host_(host) {
    if (const char* interfaces = sdk::knob(host, "HOROVOD_GLOO_IFACE")) interfaces_ = interfaces;
    constexpr const char* kLimit = "HOROVOD_GLOO_TIMEOUT_SECONDS";
    if (const char* text = sdk::knob(host, kLimit)) {
      timeout_ = std::chrono::seconds(sdk::parse_number(kLimit, text, 1, INT32_MAX));
    }
  }

  const roda_host* host() const { return host_; }
  // The device for a group, made when first asked for.
  std::shared_ptr<::gloo::transport::Device> device(Reach reach, const std::string& known) {
    const MutexLock lock(mutex_);
    auto& device = devices_[reach == Reach::kHost ? 0 : 1];
    if (device == nullptr) device = make_device(interfaces_, reach, known);
    return device;
  }
  // HOROVOD_GLOO_TIMEOUT_SECONDS if set, else what the group was given, else 30 s.
  std::chrono::milliseconds timeout(std::uint64_t group_timeout_ns) const;

  // Something ended, or a step of a group's forming is done.
  void notify() {
    events_.fetch_add(1);
    wakeups_.ring();
  }

  Wakeups& wakeups() { return wakeups_; }

  // The entries of the ABI.
  int progress() { return events_.exchange(0) + pump(); }
  int event_fd() const { return wakeups_.fd(); }
  bool arm();
  void disarm() { wakeups_.disarm(); }
  static bool collective_supported(int collective, int dtype, int op, int memory_kind) {
    return memory_kind == RODA_MEMORY_HOST && is_supported(collective, dtype, op);
  }

 private:
  int pump();

  const roda_host* const host_;
  std::string interfaces_;
  std::chrono::milliseconds timeout_{0};
  Wakeups wakeups_;
  bool has_moved_ = false;  // since the last sleep
  bool data_came_ = false;  // since the last arm()
  std::atomic<int> events_{0};
  Mutex mutex_;
  std::array<std::shared_ptr<::gloo::transport::Device>, 2> devices_ RODA_GUARDED_BY(mutex_);
};

}  // namespace roda::gloo
