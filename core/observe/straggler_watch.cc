#include "core/observe/straggler_watch.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace roda::observe {
namespace {

constexpr std::uint32_t kMostTensors = 1u << 16;  // of a step

}  // namespace

std::optional<negotiate::Lateness> StragglerWatch::complete(const Complete& tensor, Time now) {
  Step& step = steps_[static_cast<std::size_t>(count_)];
  if (tensor.waited > 0) wait(tensor, &step);
  if (tensor.first >= 0) {
    step.first_rank = tensor.last;
    step.first = tensor.first;
  }
  if (!is_step_over(tensor.tensor)) return std::nullopt;
  const Time began = std::exchange(begin_, now);
  if (began == Time{}) {  // how long the step took that ends here is not known
    step = {};
    return std::nullopt;
  }
  step.took = std::max<std::int64_t>((now - began).count(), 1);
  ++over_;
  ++count_;
  auto lateness = judge_early();
  if (count_ == kSteps) {
    if (auto of_window = judge()) lateness = of_window;
  }
  steps_[static_cast<std::size_t>(count_)] = {};
  return lateness;
}

void StragglerWatch::named(std::int32_t rank) {
  named_ = rank;
  forget_steps();
}

void StragglerWatch::forget_steps() {
  steps_.fill({});
  count_ = 0;
  begin_ = {};
}

// The rank of a step is that which has most of the waits, if one has more than all others together.
void StragglerWatch::wait(const Complete& tensor, Step* step) {
  if (step->rank == tensor.last) {
    step->waited += tensor.waited;
  } else if (step->waited >= tensor.waited) {
    step->waited -= tensor.waited;
  } else {
    step->rank = tensor.last;
    step->waited = tensor.waited - step->waited;
  }
}

bool StragglerWatch::is_step_over(std::uint64_t tensor) {
  if (tensor == anchor_) {
    since_ = 0;
    return true;
  }
  if (++since_ < interval_) return false;
  interval_ = std::min(interval_ * 2, kMostTensors);
  anchor_ = tensor;
  since_ = 0;
  forget_steps();
  return false;
}

std::optional<negotiate::Lateness> StragglerWatch::judge() {
  Step all;
  for (const Step& step : steps_) wait({.last = step.rank, .waited = step.waited}, &all);
  auto lateness = lateness_of(all.rank, kSteps);
  const std::int32_t before = std::exchange(suspect_, lateness ? all.rank : -1);
  if (named_ != suspect_ && steps_of(named_, kSteps) < kFew) named_ = -1;
  count_ = 0;
  is_asked_ = false;
  if (!lateness) return std::nullopt;
  lasted_ = (suspect_ == before ? lasted_ : 0) + time_of(kSteps);
  if (lasted_ < (named_ == suspect_ ? kAgain : kLasts)) return std::nullopt;
  named_ = suspect_;
  lasted_ = 0;
  return lateness;
}

std::optional<negotiate::Lateness> StragglerWatch::judge_early() {
  const Step& latest = before(0);
  if (latest.waited < kLeast || latest.rank == named_ || is_asked_) return std::nullopt;
  int count = 0;
  for (std::int64_t time = 0; time < kLasts || count < kFewest; ++count) {
    if (count == kSteps || before(count).took == 0) return std::nullopt;
    time += before(count).took;
  }
  if (steps_of(latest.rank, count) * 100 < count * kSurely) return std::nullopt;
  auto lateness = lateness_of(latest.rank, count);
  is_asked_ = lateness.has_value();
  return lateness;
}

const StragglerWatch::Step& StragglerWatch::before(int back) const {
  return steps_[static_cast<std::size_t>((count_ - 1 - back + kSteps) % kSteps)];
}

std::int64_t StragglerWatch::time_of(int count) const {
  std::int64_t time = 0;
  for (int back = 0; back < count; ++back) time += before(back).took;
  return time;
}

int StragglerWatch::steps_of(std::int32_t rank, int count) const {
  const std::int64_t least = time_of(count) / count / kNoticed;
  int steps = 0;
  for (int back = 0; back < count; ++back) {
    if (before(back).rank == rank && before(back).waited > least) ++steps;
  }
  return steps;
}

// How late a rank is in the latest steps; nothing where that is not worth a word.
std::optional<negotiate::Lateness> StragglerWatch::lateness_of(std::int32_t rank, int count) const {
  const int steps = steps_of(rank, count);
  if (rank < 0 || steps < kHeavySteps) return std::nullopt;
  const std::int64_t time = time_of(count);
  std::vector<Step> late;
  for (int back = 0; back < count; ++back) {
    const Step& step = before(back);
    if (step.rank == rank && step.waited > time / count / kNoticed) late.push_back(step);
  }
  const auto median = late.begin() + static_cast<std::ptrdiff_t>(late.size() / 2);
  std::ranges::nth_element(late, median, {}, &Step::waited);
  negotiate::Lateness lateness{.rank = rank, .steps = steps, .of_steps = count, .nanoseconds = median->waited};
  std::int64_t waited = 0;
  for (const Step& step : late) {
    waited += step.waited;
    if (step.first_rank < 0) lateness.before_first = -1;
    if (lateness.before_first >= 0 && step.first_rank == rank)
      lateness.before_first += std::min(step.first, step.waited) / steps;
  }
  const bool is_steady = steps * kSteps >= count * kMost;
  if (is_steady) waited = median->waited * steps;  // whatever a few steps took
  lateness.share = static_cast<std::int32_t>(waited * 1000 / time);
  if (lateness.share < (is_steady ? kShare : kHeavy) || lateness.nanoseconds < kLeast) return std::nullopt;
  return lateness;
}

}  // namespace roda::observe
