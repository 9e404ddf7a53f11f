// How far the core of another rank is: what a cache line costs that it has just written.
//
// Nobody is asked for a map of caches. Virtual machines show cores under one cache that share none, and move them while
// a job runs; the price of a line is what matters, and is true everywhere. Each rank keeps a few lines for each peer in
// its own segment, writes them again from time to time, and times its reads of the lines that the peer keeps for it. No
// rank waits for another.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include "plugins/base/coarse_clock.h"
#include "transports/shm/segment.h"

namespace roda::shm {

// Between one rank and one peer, in one direction. Threads: one at a time.
class Distance {
 public:
  Distance() = default;
  // `ours`: written by this rank for the peer; `theirs`: by the peer for this rank.
  Distance(ProbeLines* ours, const ProbeLines* theirs) : ours_(ours), theirs_(theirs) {}

  // Nanoseconds for one line, the median of the last three looks; 0 before the first. A few nanoseconds, and every 10
  // ms a microsecond.
  std::uint32_t latency() {
    if (CoarseClock::now() - written_ >= kPause) write();
    if (theirs_->written_ns.load(std::memory_order_acquire) != seen_ns_) look();
    const auto [a, b, c] = looks_;
    return std::max(std::min(a, b), std::min(std::max(a, b), c));
  }

 private:
  static constexpr std::chrono::milliseconds kPause{10};

  void write();
  void look();

  ProbeLines* ours_ = nullptr;
  const ProbeLines* theirs_ = nullptr;
  CoarseClock::time_point written_{};
  std::uint64_t seen_ns_ = 0;
  std::array<std::uint32_t, 3> looks_{};  // nanoseconds, the latest first
};

}  // namespace roda::shm
