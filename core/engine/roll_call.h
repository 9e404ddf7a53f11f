// Whose fault it is that nothing moves. A transport, or a rank's own deadline, only knows which peer it waited for, and
// that peer may wait itself for a third that is stopped. So before such an error ends the job, every rank is asked to
// answer through the log: the one that does not is named.
//
// Owned by the holder of the baton.
#pragma once

#include <cstdint>
#include <optional>
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
  bool begin(const Status& suspicion, Clock::time_point now);
  // A rank that is heard through this one has asked, and this one answers: what it asked may not have come farther.
  void pass_on(Clock::time_point now);
  // The same where nothing is suspected: this rank has waited since then, for longer than `patience` and for as long
  // after the last call, and what it said may never have reached the log, or whom it waits for when it has joined may
  // be stopped. When every rank answers, the call is over.
  bool begin_in_doubt(const Status& doubt, Clock::time_point waits_since, Clock::duration patience,
                      Clock::time_point now);
  bool is_under_way() const { return !suspicion_.ok(); }
  void answered(std::int32_t rank);
  // What ends the job: when every rank has answered the suspicion, else, when they had time enough, the rank that did
  // not. Nothing before that.
  std::optional<Status> verdict(Clock::time_point now);

 private:
  std::int32_t rank_, size_;
  std::vector<std::int32_t> way_up_;
  Status suspicion_;
  bool is_doubt_ = false;
  Clock::time_point since_{};
  std::vector<bool> present_;  // by world rank
  int num_present_ = 0;
};

}  // namespace roda::engine
