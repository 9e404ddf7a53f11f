// Finds the rank that keeps the others waiting in most steps, from what one of those that wait sees: which rank came
// last with each tensor (the log tells), and how long this rank had nothing else to do by then.
//
// A step is a round of one tensor: of the first that comes again soon enough. Names need not be known before.
//
// Pure but for the times it is given; memory of a fixed size. Not thread-safe: owned by the holder of the baton.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "core/wire/request.h"
#include "plugins/base/coarse_clock.h"

namespace roda::observe {

class StragglerWatch {
 public:
  using Time = CoarseClock::time_point;
  static constexpr int kSteps = 50;               // that are judged together, at most
  static constexpr int kFewest = 20;              // as many as take kLasts, and no fewer, are enough for a rank
  static constexpr int kSurely = 90;              // that is waited for in so many percent of them
  static constexpr int kMost = kSteps * 4 / 5;    // in which a straggler is waited for
  static constexpr int kFew = kSteps * 2 / 5;     // in fewer it is none any more, and may be named again
  static constexpr int kShare = 100;              // of the time, per mille: less is not worth a word
  static constexpr int kHeavySteps = kSteps / 5;  // the same of a rank that is on and off, as a throttled one is,
  static constexpr int kHeavy = 400;              // and costs so much of the time, per mille
  static constexpr std::int64_t kLasts = 1'000'000'000;  // ns: of ranks that share cores one is the last for a while
  static constexpr std::int64_t kAgain = 300 * kLasts;   // ns: who is that still is named again
  static constexpr int kNoticed = 20;                    // a wait of 1/20 of a step, or more, counts
  static constexpr std::int64_t kLeast = 1'000'000;  // ns: of two ranks that wake up one is always later than the other

  struct Complete {
    std::uint64_t tensor = 0;  // the same in each round
    std::int32_t last = -1;    // the rank that came last
    std::int64_t waited = 0;   // ns in which this rank did nothing but wait for it
    std::int64_t first = -1;   // of a step's first tensor: ns since this rank submitted it; -1: of another one
  };
  // All ranks have announced a tensor, now. A rank to be named, once it has kept this one waiting in windows of steps
  // for long enough; again only after a window in which it has not, or while that lasts each kAgain. Sooner, and with
  // fewer than kSteps, where there is little doubt: then it is named unless it knows better, and otherwise found again.
  std::optional<negotiate::Lateness> complete(const Complete& tensor, Time now);
  // A rank has been named to all.
  void named(std::int32_t rank);

  // Steps that are over.
  std::uint64_t steps() const { return over_; }

 private:
  struct Step {
    std::int32_t rank = -1;        // that this rank waited for most
    std::int64_t waited = 0;       // ns
    std::int32_t first_rank = -1;  // that came last with the first tensor
    std::int64_t first = 0;        // so many ns after this rank
    std::int64_t took = 0;         // ns; 0: there was no such step
  };
  static void wait(const Complete& tensor, Step* step);
  bool is_step_over(std::uint64_t tensor);
  void forget_steps();
  const Step& before(int back) const;  // 0: the step that is over now
  std::optional<negotiate::Lateness> judge();
  std::optional<negotiate::Lateness> judge_early();
  std::optional<negotiate::Lateness> lateness_of(std::int32_t rank, int count) const;
  int steps_of(std::int32_t rank, int count) const;
  std::int64_t time_of(int count) const;  // ns, of the latest steps

  std::array<Step, kSteps> steps_{};  // a ring
  int count_ = 0;                     // of this window that are over; the place of the one that is not
  Time begin_{};                      // of that
  std::uint64_t over_ = 0;
  std::int32_t named_ = -1;
  std::int32_t suspect_ = -1;  // of the windows before
  std::int64_t lasted_ = 0;    // ns, for which it is that
  bool is_asked_ = false;      // this window: a rank was found early
  // The tensor that tells steps apart is chosen anew after 1, 2, 4, ... tensors among which it does not come again
  // (R. P. Brent, "An improved Monte Carlo factorization algorithm", BIT 20, 1980).
  std::uint64_t anchor_ = 0;
  std::uint32_t since_ = 0;
  std::uint32_t interval_ = 1;
};

}  // namespace roda::observe
