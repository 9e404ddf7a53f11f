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

  Clock::duration window() const { return window_; }

  // The set has ready tensors: whether their time is over, and with it the wait. The first call begins it, and so does
  // one with another number of `news` than the call before.
  bool is_over(std::int32_t set, Clock::time_point now, std::uint64_t news = 0) {
    const auto [wait, is_new] = until_.emplace(set, Wait{now + window_, news});
    if (!is_new && wait->second.news != news) wait->second = {now + window_, news};
    if (now < wait->second.end) return false;
    until_.erase(wait);
    return true;
  }
  // The set has none.
  void end(std::int32_t set) { until_.erase(set); }
  // When the first wait is over.
  std::optional<Clock::time_point> first_end() const {
    if (until_.empty()) return std::nullopt;
    return std::ranges::min_element(until_, {}, [](const auto& wait) { return wait.second.end; })->second.end;
  }

 private:
  struct Wait {
    Clock::time_point end;
    std::uint64_t news;
  };
  Clock::duration window_{};
  std::map<std::int32_t, Wait> until_;
};

}  // namespace roda::engine
