// Whose fault it is that nothing moves. A transport, or a rank's own deadline, only knows which peer it waited for, and
// that peer may wait itself for a third that is stopped. So before such an error ends the job, every rank is asked to
// answer through the log: the one that does not is named.
//
// Owned by the holder of the baton.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugins/base/coarse_clock.h"
#include "plugins/base/status.h"

namespace roda::engine {

class RollCall {
 public:
  using Clock = CoarseClock;

  // `way_up`: the ranks through which what this one says reaches the log, the nearest first.
  RollCall(std::int32_t rank, std::int32_t size, std::vector<std::int32_t> way_up)
      : rank_(rank), size_(size), way_up_(std::move(way_up)) {}

  // Whether the ranks are to be asked: no call is under way. The first suspicion is kept.
  bool begin(const Status& suspicion, Clock::time_point now) {
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

  // A rank that is heard through this one has asked, and this one answers: what it asked may not have come farther.
  void pass_on(Clock::time_point now) {
    const Status asked(RODA_ERR_TIMEOUT, "Rank " + std::to_string(rank_) + " heard that other ranks wait for it.");
    if (!is_under_way()) begin_in_doubt(asked, Clock::time_point::min(), Clock::duration::zero(), now);
  }

  // The same where nothing is suspected: this rank has waited since then, for longer than `patience` and for as long
  // after the last call, and what it said may never have reached the log, or whom it waits for when it has joined may
  // be stopped. When every rank answers, the call is over.
  bool begin_in_doubt(const Status& doubt, Clock::time_point waits_since, Clock::duration patience,
                      Clock::time_point now) {
    if (is_under_way() || now - patience < std::max(waits_since, since_)) return false;
    begin(doubt, now);
    is_doubt_ = true;
    return true;
  }

  bool is_under_way() const { return !suspicion_.ok(); }
  void answered(std::int32_t rank) {
    if (!is_under_way() || present_[static_cast<std::size_t>(rank)]) return;
    present_[static_cast<std::size_t>(rank)] = true;
    ++num_present_;
  }

  // What ends the job: when every rank has answered the suspicion, else, when they had time enough, the rank that did
  // not. Nothing before that.
  std::optional<Status> verdict(Clock::time_point now) {
    if (!is_under_way()) return std::nullopt;
    if (num_present_ == size_) {
      if (!std::exchange(is_doubt_, false)) return suspicion_;
      suspicion_ = Status();
      return std::nullopt;
    }
    // Who is heard through a missing rank is missing too, and has a higher number: leaders are the lowest of their
    // hosts, and those above in their tree are lower still.
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

 private:
  // A rank that runs answers within milliseconds, on a crowded machine within a few time slices.
  static constexpr auto kPatience = std::chrono::seconds(2);

  std::int32_t rank_, size_;
  std::vector<std::int32_t> way_up_;
  Status suspicion_;
  bool is_doubt_ = false;
  Clock::time_point since_{};
  std::vector<bool> present_;  // by world rank
  int num_present_ = 0;
};

}  // namespace roda::engine
