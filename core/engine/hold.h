// How long ready tensors still wait for others to join them (HOROVOD_CYCLE_TIME), by process set.
//
// Owned by the holder of the baton.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>

namespace roda::engine {

class Hold {
 public:
  using Clock = std::chrono::steady_clock;

  // Zero: nothing waits. What waits now begins anew.
  void set_window(std::chrono::duration<double, std::milli> window) {
    window_ = std::chrono::duration_cast<Clock::duration>(window);
    until_.clear();
  }
  bool is_on() const { return window_ > Clock::duration::zero(); }

  // The set has ready tensors: whether their time is over, and with it the wait. The first call begins it.
  bool is_over(std::int32_t set, Clock::time_point now) {
    const auto [wait, is_new] = until_.emplace(set, now + window_);
    if (is_new || now < wait->second) return false;
    until_.erase(wait);
    return true;
  }
  // The set has none.
  void end(std::int32_t set) { until_.erase(set); }
  // When the first wait is over.
  std::optional<Clock::time_point> first_end() const {
    if (until_.empty()) return std::nullopt;
    return std::ranges::min_element(until_, {}, [](const auto& wait) { return wait.second; })->second;
  }

 private:
  Clock::duration window_{};
  std::map<std::int32_t, Clock::time_point> until_;
};

}  // namespace roda::engine
