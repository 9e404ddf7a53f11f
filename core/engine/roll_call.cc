#include "core/engine/roll_call.h"

#include <algorithm>
#include <string>

namespace roda::engine {
namespace {

// A rank that runs answers within milliseconds, on a crowded machine within a few time slices.
constexpr auto kPatience = std::chrono::seconds(2);

}  // namespace

bool RollCall::begin(const Status& suspicion, Clock::time_point now) {
  if (is_under_way()) {
    if (std::exchange(is_doubt_, false)) suspicion_ = suspicion;
    return false;
  }
  suspicion_ = suspicion;
  since_ = now;
  present_.assign(static_cast<std::size_t>(size_), false);
  num_present_ = 0;
  return true;
}

bool RollCall::begin_in_doubt(const Status& doubt, Clock::time_point waits_since, Clock::duration patience,
                              Clock::time_point now) {
  if (is_under_way() || now - patience < std::max(waits_since, since_)) return false;
  begin(doubt, now);
  is_doubt_ = true;
  return true;
}

void RollCall::pass_on(Clock::time_point now) {
  const Status asked(RODA_ERR_TIMEOUT, "Rank " + std::to_string(rank_) + " heard that other ranks wait for it.");
  if (!is_under_way()) begin_in_doubt(asked, Clock::time_point::min(), Clock::duration::zero(), now);
}

void RollCall::answered(std::int32_t rank) {
  if (!is_under_way() || present_[static_cast<std::size_t>(rank)]) return;
  present_[static_cast<std::size_t>(rank)] = true;
  ++num_present_;
}

std::optional<Status> RollCall::verdict(Clock::time_point now) {
  if (!is_under_way()) return std::nullopt;
  if (num_present_ == size_) {
    if (!std::exchange(is_doubt_, false)) return suspicion_;
    suspicion_ = Status();
    return std::nullopt;
  }
  // Who is heard through a missing rank is missing too, and has a higher number: leaders are the lowest of their hosts,
  // and those above in their tree are lower still.
  auto missing = static_cast<std::int32_t>(std::ranges::find(present_, false) - present_.begin());
  auto patience = kPatience;
  if (!present_[static_cast<std::size_t>(rank_)] && !way_up_.empty()) {
    // Not even this call came back. Whoever is nearer to the log knows better, and speaks first.
    missing = way_up_.front();
    patience *= way_up_.size();
  }
  if (now < since_ + patience) return std::nullopt;
  return Status(suspicion_.code(),
                "Rank " + std::to_string(missing) +
                    " does not answer: its process is stopped, swapped out or starved, or its host is cut off. " +
                    suspicion_.message(),
                missing);
}

}  // namespace roda::engine
