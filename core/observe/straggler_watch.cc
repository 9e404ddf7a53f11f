#include "core/observe/straggler_watch.h"

#include <algorithm>
#include <iterator>
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
  if (begin_ == Time{}) {
    begin_ = now;  // how long the step took that ends here is not known
  } else if (++count_ == kSteps) {
    return judge(now);
  }
  steps_[static_cast<std::size_t>(count_)] = {};
  return std::nullopt;
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
  count_ = 0;
  begin_ = {};
  return false;
}

std::optional<negotiate::Lateness> StragglerWatch::judge(Time now) {
  const std::int64_t time = std::max<std::int64_t>((now - begin_).count(), 1);
  ++windows_;
  count_ = 0;
  begin_ = now;
  Step all;
  for (const Step& step : steps_) wait({.last = step.rank, .waited = step.waited}, &all);
  auto lateness = lateness_of(all.rank, time);
  const std::int32_t before = std::exchange(suspect_, lateness ? all.rank : -1);
  if (named_ != suspect_ && steps_of(named_, time / kSteps / kNoticed) < kFew) named_ = -1;
  steps_.front() = {};
  if (!lateness) return std::nullopt;
  lasted_ = (suspect_ == before ? lasted_ : 0) + time;
  if (lasted_ < kLasts || named_ == suspect_) return std::nullopt;
  named_ = suspect_;
  return lateness;
}

int StragglerWatch::steps_of(std::int32_t rank, std::int64_t least) const {
  return static_cast<int>(
      std::ranges::count_if(steps_, [&](const Step& step) { return step.rank == rank && step.waited > least; }));
}

// How late a rank is in a window that has taken so long; nothing where that is not worth a word.
std::optional<negotiate::Lateness> StragglerWatch::lateness_of(std::int32_t rank, std::int64_t time) const {
  const std::int64_t least = time / kSteps / kNoticed;
  const int steps = steps_of(rank, least);
  if (rank < 0 || steps < kHeavySteps) return std::nullopt;
  std::vector<Step> late;
  std::ranges::copy_if(steps_, std::back_inserter(late),
                       [&](const Step& step) { return step.rank == rank && step.waited > least; });
  const auto median = late.begin() + static_cast<std::ptrdiff_t>(late.size() / 2);
  std::ranges::nth_element(late, median, {}, &Step::waited);
  negotiate::Lateness lateness{.rank = rank, .steps = steps, .of_steps = kSteps, .nanoseconds = median->waited};
  std::int64_t waited = 0;
  for (const Step& step : late) {
    waited += step.waited;
    if (step.first_rank < 0) lateness.before_first = -1;
    if (lateness.before_first >= 0 && step.first_rank == rank)
      lateness.before_first += std::min(step.first, step.waited) / steps;
  }
  if (steps >= kMost) waited = median->waited * steps;  // whatever a few steps took
  lateness.share = static_cast<std::int32_t>(waited * 1000 / time);
  if (lateness.share < (steps >= kMost ? kShare : kHeavy) || lateness.nanoseconds < kLeast) return std::nullopt;
  return lateness;
}

}  // namespace roda::observe
