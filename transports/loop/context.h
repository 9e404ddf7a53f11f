// One rank's use of the loop transport: its doorbell, its faults, and the timer behind delayed messages.
#pragma once

#include <roda/sdk/doorbell.hpp>

#include <chrono>
#include <vector>

#include "transports/loop/loop.h"

namespace roda::loop {

using Clock = std::chrono::steady_clock;
class Hub;

// ring() from any thread, the rest from the rank's own.
class Context {
 public:
  explicit Context(const roda_host* host);
  ~Context();

  void ring() { doorbell_.ring(); }
  int event_fd() const { return poll_fd_ >= 0 ? poll_fd_ : doorbell_.fd(); }
  // False when a delayed message has become due.
  bool arm();
  void disarm() { doorbell_.disarm(); }
  // Delivers what has become due; the number of messages.
  int progress();

  // To be asked once per operation. Throws the injected failure; true asks for RODA_AGAIN.
  bool count_operation();
  Clock::duration delay() const { return std::chrono::microseconds(settings_.delay_us); }

  void add(Hub* hub, int rank) { seats_.push_back({hub, rank}); }
  void remove(Hub* hub);

 private:
  // Delayed messages need a clock to wake a sleeper: then the descriptor is an epoll set of doorbell and timer.
  void open_timer();

  struct Seat {
    Hub* hub;
    int rank;
  };
  sdk::Doorbell doorbell_;
  int timer_fd_ = -1;
  int poll_fd_ = -1;
  const Settings settings_;
  std::int64_t operations_ = 0;
  std::int64_t attempts_ = 0;
  std::vector<Seat> seats_;
};

}  // namespace roda::loop
