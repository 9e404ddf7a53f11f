// How long ready tensors still wait for others to join them (HOROVOD_CYCLE_TIME), by process set.
//
// Owned by the holder of the baton.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>

namespace roda::engine {

class Hold {
 public:
  using Clock = std::chrono::steady_clock;

  // Zero: nothing waits. What waits now begins anew.
  void set_window(std::chrono::duration<double, std::milli> window);
  bool is_on() const { return window_ > Clock::duration::zero(); }

  // The set has ready tensors: whether their time is over, and with it the wait. The first call begins it.
  bool is_over(std::int32_t set, Clock::time_point now);
  // The set has none.
  void end(std::int32_t set) { until_.erase(set); }
  // When the first wait is over.
  std::optional<Clock::time_point> first_end() const;

 private:
  Clock::duration window_{};
  std::map<std::int32_t, Clock::time_point> until_;
};

}  // namespace roda::engine
