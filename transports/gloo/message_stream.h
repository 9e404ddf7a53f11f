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
    }
    return runs_;
  }

  // The oldest message has ended.
  void note_end(std::size_t bytes) {
    if (!runs_) return;
    const auto now = Clock::now();
    const double taken = std::chrono::duration<double, std::nano>(now - since_).count();
    ns_per_byte_ += (taken / static_cast<double>(bytes) - ns_per_byte_) / 8;
    since_ = now;
  }

  // When a caller who sleeps should look after the oldest message, of `bytes`. Others are behind it, so a little late
  // costs nothing.
  Clock::time_point next_look(std::size_t bytes) const {
    using std::chrono::duration_cast;
    const auto whole = duration_cast<Clock::duration>(
        std::chrono::duration<double, std::nano>(ns_per_byte_ * static_cast<double>(bytes)));
    const auto now = Clock::now();
    const auto left = since_ + whole - now;
    const auto late = std::max(whole, -left) / 8;  // ever less often while nothing comes
    return now + std::clamp<Clock::duration>(std::max(left, late), kShortest, kLongest);
  }

 private:
  static constexpr std::chrono::microseconds kShortest{50}, kLongest{10'000};

  bool runs_ = false;
  Clock::time_point since_;  // the oldest message moves
  double ns_per_byte_ = 0.2;
};

}  // namespace roda::gloo
