// What the engine sleeps on. Its own thread and a waiting thread that holds the baton sleep on descriptors of their
// own: each must see what wakes it, and the engine's thread must not be woken again and again by what a waiting thread
// is dealing with (hence edge-triggered).
#pragma once

#include "plugins/base/status.h"
#include "plugins/base/unique_fd.h"

namespace roda::engine {

class Bells {
 public:
  Bells() = default;  // rings nothing until it is opened
  static Status open(Bells* bells);

  // --- any thread ---
  void wake_engine() const { ring(engine_wake_); }  // there is work and nobody else does it
  void wake_holder() const { ring(holder_wake_); }  // a submission while a waiting thread sleeps with the baton

  // --- the holder of the baton ---
  // The descriptor wakes both from now on. Negative: nothing.
  Status watch(int fd);

  // Until something rings, at most that long; negative: for ever. True when something rang.
  bool sleep_as_engine(int timeout_ms) const { return wait(engine_poll_, engine_wake_, timeout_ms); }
  bool sleep_as_holder(int timeout_ms) const { return wait(holder_poll_, holder_wake_, timeout_ms); }

 private:
  static void ring(const UniqueFd& eventfd);
  static bool wait(const UniqueFd& poll, const UniqueFd& wake, int timeout_ms);

  UniqueFd engine_poll_, engine_wake_;
  UniqueFd holder_poll_, holder_wake_;
};

}  // namespace roda::engine
