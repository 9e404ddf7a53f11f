// One rank's use of the loop transport: its doorbell, its faults, and the timer behind delayed messages.
#pragma once

#include <roda/sdk/doorbell.hpp>

#include <chrono>
#include <vector>

#include "plugins/base/unique_fd.h"
#include "transports/loop/loop.h"

namespace roda::loop {

using Clock = std::chrono::steady_clock;
class Group;

// ring() from any thread, the rest from the rank's own.
class Context {
 public:
  explicit Context(const roda_host* host);

  void ring() { doorbell_.ring(); }
  int event_fd() const { return poll_.get(); }
  // False when a delayed message has become due.
  bool arm();
  void disarm() { doorbell_.disarm(); }
  // Delivers what has become due; the number of messages.
  int progress();

  // To be asked once per operation. Throws the injected failure; true asks for RODA_AGAIN.
  bool count_operation();
  Clock::duration delay() const { return std::chrono::microseconds(settings_.delay_us); }

  void add(Group* group) { groups_.push_back(group); }
  void remove(Group* group) { std::erase(groups_, group); }

 private:
  const Settings settings_;
  sdk::Doorbell doorbell_;
  UniqueFd timer_;  // delayed messages need a clock to wake a sleeper
  UniqueFd poll_;   // both of them
  std::int64_t operations_ = 0;
  std::int64_t attempts_ = 0;
  std::vector<Group*> groups_;
};

}  // namespace roda::loop
