// Happens-before: vector clocks, and the accesses that a piece of memory remembers.
//
// A thread is one lane of one rank. Its own time advances whenever it tells others something (a message, a signal), so
// an event of time t is known to whoever has a clock that covers (thread, t).
#pragma once

#include <memory>
#include <vector>

namespace roda::schedule::verifier {

struct Event {
  int thread = -1;
  int time = 0;
  int step = -1;  // -1: the start
};

class Clock {
 public:
  explicit Clock(int threads) : times_(static_cast<std::size_t>(threads), 0) {}

  bool covers(const Event& event) const { return at(event.thread) >= event.time; }
  int at(int thread) const { return times_[static_cast<std::size_t>(thread)]; }
  void set(int thread, int time) { times_[static_cast<std::size_t>(thread)] = time; }
  void tick(int thread) { ++times_[static_cast<std::size_t>(thread)]; }
  void join(const Clock& other);

 private:
  std::vector<int> times_;
};

using ClockSnapshot = std::shared_ptr<const Clock>;

// Accesses to one chunk since its last write.
class History {
 public:
  // `by_message` of a read: the thread that sent the chunk. That thread waits for the send's end before it overwrites
  // the chunk, so the read is no conflict with its own writes; everybody else must come after the message's receipt.
  void record_read(const Event& read, int by_message = -1);
  void record_write(const Event& write);

  // The access that is not ordered before one by somebody with `clock`; nullptr when there is none.
  const Event* unordered_with_read(const Clock& clock) const;
  const Event* unordered_with_write(const Clock& clock, int thread) const;
  // As a write at the end of the rank that owns the chunk, when all its sends are over.
  const Event* unordered_with_end(const Clock& clock) const;

 private:
  struct Read {
    Event event;
    int by_message;
  };
  Event write_;
  std::vector<Read> reads_;
};

}  // namespace roda::schedule::verifier
