// Notices tensors that some ranks have submitted and others have not, for long.
//
// Pure but for the time it is given. Not thread-safe: owned by the holder of the baton.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugins/base/coarse_clock.h"

namespace roda::observe {

class StallWatch {
 public:
  using Clock = CoarseClock;
  // Tensors waiting longer than `warn` are reported, again every `warn`; longer than `shut_down` (zero: never) end the
  // job. A `shut_down` below `warn` is ignored.
  StallWatch(std::chrono::seconds warn, std::chrono::seconds shut_down) : warn_(warn), shut_down_(shut_down) {}

  struct Waiting {
    std::int32_t set = 0;
    std::string name;
    std::vector<std::int32_t> missing;  // world ranks that have not submitted it, ascending; empty: none is known
  };
  struct Report {
    std::string text;
    bool shut_down = false;
    std::int32_t culprit = -1;  // of a shutdown: a rank that a tensor waited for too long; -1: none is known
  };

  // Whether it is time for a look; the next one is a while later.
  bool is_due(Clock::time_point now) {
    if (now < next_look_) return false;
    next_look_ = now + kLook;
    return true;
  }
  static constexpr auto kLook = std::chrono::milliseconds(1000);

  // `waiting`: everything that waits now. A report is due or not.
  std::optional<Report> look(const std::vector<Waiting>& waiting, Clock::time_point now);

 private:
  bool ends_stalls() const { return shut_down_.count() > 0 && shut_down_ >= warn_; }
  std::string describe(const std::vector<const Waiting*>& stalled, bool ends) const;

  std::chrono::seconds warn_;
  std::chrono::seconds shut_down_;
  std::map<std::pair<std::int32_t, std::string>, Clock::time_point> since_;
  Clock::time_point next_look_{};
  Clock::time_point next_report_{};
};

}  // namespace roda::observe
