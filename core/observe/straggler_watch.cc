#include "core/observe/straggler_watch.h"

#include <algorithm>
#include <iterator>
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
  const std::int64_t time = (now - begin_).count();
  ++windows_;
  count_ = 0;
  begin_ = now;
  const auto counts = [least = time / kSteps / kNoticed](const Step& step, std::int32_t rank) {
    return step.rank == rank && step.waited > least;
  };
  const auto steps_of = [&](std::int32_t rank) {
    return std::ranges::count_if(steps_, [&](const Step& step) { return counts(step, rank); });
  };
  // A rank that has most of the steps has the one in the middle of them, in the order of ranks.
  std::array<std::int32_t, kSteps> ranks{};
  std::ranges::transform(steps_, ranks.begin(), &Step::rank);
  std::ranges::nth_element(ranks, ranks.begin() + kSteps / 2);
  const std::int32_t rank = ranks[kSteps / 2];
  const auto steps = static_cast<std::int32_t>(steps_of(rank));
  if (named_ >= 0 && steps_of(named_) < kFew) named_ = -1;
  std::vector<Step> late;
  if (steps >= kMost)
    std::ranges::copy_if(steps_, std::back_inserter(late), [&](const Step& s) { return counts(s, rank); });
  steps_.front() = {};
  if (late.empty() || rank == named_ || rank < 0) return std::nullopt;
  const auto median = late.begin() + static_cast<std::ptrdiff_t>(late.size() / 2);
  std::ranges::nth_element(late, median, {}, &Step::waited);
  negotiate::Lateness lateness{.rank = rank, .steps = steps, .of_steps = kSteps, .nanoseconds = median->waited};
  lateness.share = static_cast<std::int32_t>(median->waited * steps * 1000 / std::max<std::int64_t>(time, 1));
  for (const Step& step : late) {
    if (step.first_rank < 0) lateness.before_first = -1;
    if (lateness.before_first >= 0 && step.first_rank == rank)
      lateness.before_first += std::min(step.first, step.waited) / steps;
  }
  if (lateness.share < kShare || lateness.nanoseconds < kLeast) return std::nullopt;
  named_ = rank;
  return lateness;
}

}  // namespace roda::observe
