// Time as transports measure their limits.
#pragma once

#include <time.h>

#include <cstdint>

namespace roda::sdk {

// CLOCK_MONOTONIC. Any thread.
inline std::uint64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

// A limit on standing still. One thread at a time.
class ProgressLimit {
 public:
  // `moved` grows whenever what is waited for makes progress. True when it has not grown for `limit_ns` (0: no limit)
  // since a look found that it had; the first look only notes it.
  bool is_over(std::uint64_t moved, std::uint64_t limit_ns) {
    if (limit_ns == 0) return false;
    const std::uint64_t now = now_ns();
    if (seen_ns_ != 0 && moved == seen_) return now - seen_ns_ > limit_ns;
    seen_ = moved;
    seen_ns_ = now;
    return false;
  }

 private:
  std::uint64_t seen_ns_ = 0;  // 0: not looked yet
  std::uint64_t seen_ = 0;
};

}  // namespace roda::sdk
