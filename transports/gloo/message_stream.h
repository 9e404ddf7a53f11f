// Big messages of one direction that follow each other closely: Gloo's own thread moves them best.
//
// That thread spins on a pair's lock while somebody else is at the pair. For a single message it is worth that: it ends
// sooner if whoever waits for it reads it. A stream loses what the spinning takes, a core where the thread has one.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace roda::gloo {

// The link's caller only.
class MessageStream {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::size_t kBig = std::size_t{64} << 10;

  // `pending`: how many big messages are, counted to kEnough. `flows` is asked once they are enough: do data lie in the
  // socket? True from then on until none is pending.
  static constexpr int kEnough = 2;
  template <typename Flows>
  bool runs(int pending, Flows&& flows) {
    if (pending == 0) runs_ = false;
    if (pending >= kEnough && !runs_ && flows()) {
      runs_ = true;
      since_ = Clock::now();
      ended_ = 0;
    }
    return runs_;
  }

  void note_end(std::size_t bytes) { ended_ += bytes; }

  // When a caller who sleeps from `now` on should look after the oldest message, of `bytes`: early, and then ever less
  // often while nothing comes. What has ended since the last look tells the pace; a quicker one is believed at once,
  // because sleeping too long makes messages look slow.
  Clock::time_point next_look(std::size_t bytes, Clock::time_point now) {
    if (ended_ > 0) {
      const double found = std::chrono::duration<double, std::nano>(now - since_).count() / static_cast<double>(ended_);
      ns_per_byte_ = std::min(found, ns_per_byte_ + (found - ns_per_byte_) / 8);
      since_ = now;
      ended_ = 0;
    }
    const auto whole = std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double, std::nano>(ns_per_byte_ * static_cast<double>(bytes)));
    const auto left = since_ + whole - now;
    const auto late = std::max(whole, -left) / 8;
    return now + std::clamp<Clock::duration>(std::max(left * 7 / 8, late), kShortest, kLongest);
  }

 private:
  static constexpr std::chrono::microseconds kShortest{50}, kLongest{10'000};

  bool runs_ = false;
  Clock::time_point since_;  // the last look that found an end, or the beginning
  std::size_t ended_ = 0;    // bytes, since then
  double ns_per_byte_ = 0.2;
};

}  // namespace roda::gloo
