// A steady clock that is cheap to read (a few nanoseconds, a fifth of std::chrono::steady_clock), as fine as the
// kernel's tick: 1 to 10 ms. For limits of seconds that are looked at in every poll.
#pragma once

#include <ctime>

#include <chrono>

namespace roda {

struct CoarseClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<CoarseClock>;
  static constexpr bool is_steady = true;

  static time_point now() noexcept {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return time_point(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
  }
};

}  // namespace roda
