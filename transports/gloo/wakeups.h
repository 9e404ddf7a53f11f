// What the context's caller sleeps on: helper threads' ends of collectives, data for groups with messages pending, and
// a slow tick for the rest.
//
// Messages end on the caller's thread (Link::pump), which has to be awake when data come: it sleeps on Gloo's own
// sockets. The device's thread may take the data out of one and count them while the caller looks elsewhere, after
// which nothing becomes readable any more. So a sleeper with messages pending wakes by itself too, at first soon, then
// ever later.
#pragma once

#include <roda/sdk/doorbell.hpp>

#include <chrono>

#include "plugins/base/unique_fd.h"

namespace roda::gloo {

// A set of sockets that may be closed at any time by somebody else.
class SocketSet {
 public:
  SocketSet();
  int fd() const { return epoll_.get(); }  // readable while one of them is
  void add(int socket);

 private:
  UniqueFd epoll_;
};

// ring(): any thread, the others from the context's caller.
class Wakeups {
 public:
  Wakeups();
  int fd() const { return epoll_.get(); }
  void ring() { doorbell_.ring(); }
  void arm() { doorbell_.arm(); }  // then one of tick() and stop_ticking()
  void disarm() { doorbell_.disarm(); }

  void include(const SocketSet& sockets);
  void exclude(const SocketSet& sockets);
  // Before a sleep that waits for messages; `has_moved`: something has since the last.
  void tick(bool has_moved);
  void tick_at(std::chrono::steady_clock::time_point time);
  void stop_ticking();

 private:
  sdk::Doorbell doorbell_;
  UniqueFd timer_;
  UniqueFd epoll_;
  bool ticks_ = false;
  std::chrono::steady_clock::time_point next_tick_{};
  std::chrono::microseconds pace_{0};

  void set_timer(std::chrono::nanoseconds time);
};

}  // namespace roda::gloo
