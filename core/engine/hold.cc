#include "core/engine/hold.h"

namespace roda::engine {

void Hold::set_window(std::chrono::duration<double, std::milli> window) {
  window_ = std::chrono::duration_cast<Clock::duration>(window);
  until_.clear();
}

bool Hold::is_over(std::int32_t set, Clock::time_point now) {
  const auto [wait, is_new] = until_.emplace(set, now + window_);
  if (is_new || now < wait->second) return false;
  until_.erase(wait);
  return true;
}

std::optional<Hold::Clock::time_point> Hold::first_end() const {
  std::optional<Clock::time_point> first;
  for (const auto& [set, end] : until_) {
    if (!first.has_value() || end < *first) first = end;
  }
  return first;
}

}  // namespace roda::engine
