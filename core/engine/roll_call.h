// Finds the rank at fault when nothing moves. A transport, or a rank's own deadline, only knows which peer it waited
// for, and that peer may itself wait for a third rank that is stopped. So before such an error ends the job, every rank
// is asked to answer through the log: the rank that does not answer is named.
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

  // In each turn. A process that was stopped sees its time jump.
  void runs_at(Clock::time_point now) {
    if (ran_ != Clock::time_point{} && now - ran_ >= kStopped) {
      stopped_for_ = now - ran_;
      runs_since_ = now;
    }
    ran_ = now;
  }

  // Whether the ranks are to be asked: no call is under way. The first cause is kept.
  bool begin(const Status& cause, Clock::time_point now) {
    if (is_under_way()) {
      if (std::exchange(is_precaution_, false)) cause_ = cause;
      return false;
    }
    cause_ = cause;
    since_ = now;
    present_.assign(static_cast<std::size_t>(size_), false);
    num_present_ = 0;
    return true;
  }

  // A rank that is heard through this one has asked, and this one answers: what it asked may not have come farther.
  void pass_on(Clock::time_point now) {
    const Status asked(RODA_ERR_TIMEOUT, "Rank " + std::to_string(rank_) + " heard that other ranks wait for it.");
    if (!is_under_way()) begin_as_precaution(asked, Clock::time_point::min(), Clock::duration::zero(), now);
  }

  // The same without an error: this rank has waited since `waits_since`, for longer than `timeout`, and as long since
  // the last call. Its records may never have reached the log; or it has joined, and a rank that it waits for may be
  // stopped. When every rank answers, the call is over.
  bool begin_as_precaution(const Status& cause, Clock::time_point waits_since, Clock::duration timeout,
                           Clock::time_point now) {
    if (is_under_way() || now - timeout < std::max(waits_since, since_)) return false;
    begin(cause, now);
    is_precaution_ = true;
    return true;
  }

  bool is_under_way() const { return !cause_.ok(); }
  void answered(std::int32_t rank) {
    if (!is_under_way() || present_[static_cast<std::size_t>(rank)]) return;
    present_[static_cast<std::size_t>(rank)] = true;
    ++num_present_;
  }

  // The error that ends the job: the call's cause when every rank has answered; else, when the time for answers is
  // over, that a rank did not. Nothing before that.
  std::optional<Status> verdict(Clock::time_point now) {
    if (!is_under_way()) return std::nullopt;
    if (num_present_ == size_) {
      if (!std::exchange(is_precaution_, false)) return cause_;
      cause_ = Status();
      return std::nullopt;
    }
    // Ranks that are heard through a missing rank are missing too, and have higher numbers: leaders are the lowest of
    // their hosts, and leaders above in their tree are lower still.
    auto missing = static_cast<std::int32_t>(std::ranges::find(present_, false) - present_.begin());
    auto timeout = kAnswerTimeout;
    if (!present_[static_cast<std::size_t>(rank_)] && !way_up_.empty()) {
      // Not even this call came back. A rank nearer to the log knows better, and ends the job first.
      missing = way_up_.front();
      timeout *= way_up_.size();
    }
    if (now < since_ + timeout) return std::nullopt;
    if (!present_[static_cast<std::size_t>(rank_)] && stopped_for_ > Clock::duration::zero() &&
        since_ - runs_since_ < kAnswerTimeout) {
      return gave_this_up();
    }
    return Status(cause_.code(),
                  "Rank " + std::to_string(missing) +
                      " does not answer: its process is stopped, swapped out or starved, or its host is cut off. " +
                      cause_.message(),
                  missing);
  }

 private:
  // Those who waited for this rank meanwhile may have ended the job, and their word of it found no room here.
  Status gave_this_up() const {
    const auto stopped = std::chrono::duration_cast<std::chrono::seconds>(stopped_for_).count();
    return {cause_.code(),
            "Rank " + std::to_string(rank_) + " did not run for " + std::to_string(stopped) +
                " s: its process was stopped, swapped out or starved, and the others may have given it up. " +
                cause_.message(),
            rank_};
  }

  // So long no turn lasts, nor a sleep between two.
  static constexpr auto kStopped = std::chrono::seconds(10);
  // A rank that runs answers within milliseconds, on a crowded machine within a few time slices.
  static constexpr auto kAnswerTimeout = std::chrono::seconds(2);

  std::int32_t rank_, size_;
  std::vector<std::int32_t> way_up_;
  Status cause_;
  bool is_precaution_ = false;
  Clock::time_point since_{};
  Clock::time_point ran_{}, runs_since_{};  // the last turn, and the first after the last stop
  Clock::duration stopped_for_{};
  std::vector<bool> present_;  // by world rank
  int num_present_ = 0;
};

}  // namespace roda::engine
