#include "algorithms/schedule/verify/clock.h"

#include <algorithm>

namespace roda::schedule::verifier {

void Clock::join(const Clock& other) {
  for (std::size_t i = 0; i < times_.size(); ++i) times_[i] = std::max(times_[i], other.times_[i]);
}

void History::record_read(const Event& read, int by_message) {
  for (Read& earlier : reads_) {
    if (earlier.event.thread != read.thread || earlier.by_message != by_message) continue;
    earlier.event = read;  // later in the same thread: whoever comes after this one comes after the earlier, too
    return;
  }
  reads_.push_back({read, by_message});
}

void History::record_write(const Event& write) {
  write_ = write;
  reads_.clear();
}

const Event* History::unordered_with_read(const Clock& clock) const { return clock.covers(write_) ? nullptr : &write_; }

const Event* History::unordered_with_write(const Clock& clock, int thread) const {
  if (!clock.covers(write_)) return &write_;
  for (const Read& read : reads_) {
    if (read.by_message != thread && !clock.covers(read.event)) return &read.event;
  }
  return nullptr;
}

const Event* History::unordered_with_end(const Clock& clock) const {
  if (!clock.covers(write_)) return &write_;
  for (const Read& read : reads_) {
    if (read.by_message < 0 && !clock.covers(read.event)) return &read.event;
  }
  return nullptr;
}

}  // namespace roda::schedule::verifier
