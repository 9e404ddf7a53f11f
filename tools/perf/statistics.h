// How often an operation is repeated, and its times summarised. Microseconds. Shared with the peers' programs, so that
// all are measured alike.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace roda::perf {

inline double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Repeats {
  int warmup, timed;
};

// A function of its arguments alone: the ranks must agree. Negative numbers leave the choice to the size.
inline Repeats repeats_for(std::size_t bytes, int warmup, int timed) {
  Repeats repeats = bytes <= (64u << 10)   ? Repeats{30, 300}
                    : bytes <= (1u << 20)  ? Repeats{10, 60}
                    : bytes <= (16u << 20) ? Repeats{4, 20}
                                           : Repeats{2, 9};
  if (warmup >= 0) repeats.warmup = warmup;
  if (timed >= 0) repeats.timed = timed;
  return repeats;
}

struct Statistics {
  double median = 0, p95 = 0, min = 0, mean = 0;
  int samples = 0;
};

// Zeros for no times.
inline Statistics summarise(std::vector<double> times) {
  if (times.empty()) return {};
  std::sort(times.begin(), times.end());
  const std::size_t n = times.size();
  double total = 0;
  for (const double time : times) total += time;
  Statistics result;
  result.median = (times[(n - 1) / 2] + times[n / 2]) / 2;
  result.p95 = times[std::min(n - 1, n * 95 / 100)];
  result.min = times.front();
  result.mean = total / static_cast<double>(n);
  result.samples = static_cast<int>(n);
  return result;
}

}  // namespace roda::perf
