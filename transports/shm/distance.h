// How far the core of another rank is: what a cache line costs that it has just written.
//
// Nobody is asked for a map of caches. Virtual machines show cores under one cache that share none, and move them while
// a job runs; the price of a line is what matters, and is true everywhere. Each rank keeps a few lines for each peer in
// its own segment, writes them again from time to time, and times its reads of the lines that the peer keeps for it. No
// rank waits for another.
#pragma once

#include <roda/sdk/clock.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include "plugins/base/coarse_clock.h"
#include "transports/shm/segment.h"

namespace roda::shm {

// The lines are read one after the other, each telling which is next, and out of order: no prefetcher runs ahead.
inline constexpr std::uint64_t kFirst = 3;
inline constexpr std::uint64_t kNext[ProbeLines::kLines] = {0, 0, 0, 11, 0, 0, 14, 0, 0, 0, 0, 6, 0, 0, kFirst};
inline constexpr int kReads = 4;

// Lines that were written longer ago may have left the writer's cache.
inline constexpr std::uint64_t kFreshNs = 2'000'000;
// A look that took longer was interrupted.
inline constexpr std::uint64_t kMostNs = 2'000;

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

  void write() {
    written_ = CoarseClock::now();
    for (std::uint64_t line = kFirst, i = 0; i < kReads; ++i, line = kNext[line]) {
      ours_->lines[line].next.store(kNext[line], std::memory_order_relaxed);
    }
    ours_->written_ns.store(sdk::now_ns(), std::memory_order_release);
  }
  void look() {
    seen_ns_ = theirs_->written_ns.load(std::memory_order_acquire);
    const std::uint64_t begin = sdk::now_ns();
    if (begin - seen_ns_ > kFreshNs) return;
    std::uint64_t line = kFirst;
    for (int i = 0; i < kReads; ++i) {
      line = theirs_->lines[line % ProbeLines::kLines].next.load(std::memory_order_acquire);
    }
    const std::uint64_t each = (sdk::now_ns() - begin) / kReads;
    if (each > kMostNs || line != kFirst) return;
    const auto latest = static_cast<std::uint32_t>(std::max<std::uint64_t>(each, 1));
    looks_ = {latest, looks_[0] == 0 ? latest : looks_[0], looks_[0] == 0 ? latest : looks_[1]};
  }

  ProbeLines* ours_ = nullptr;
  const ProbeLines* theirs_ = nullptr;
  CoarseClock::time_point written_{};
  std::uint64_t seen_ns_ = 0;
  std::array<std::uint32_t, 3> looks_{};  // nanoseconds, the latest first
};

}  // namespace roda::shm
