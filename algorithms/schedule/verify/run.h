// The symbolic execution of all ranks' schedules. After check(): every index is valid.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "algorithms/schedule/schedule.h"
#include "algorithms/schedule/verifier.h"
#include "algorithms/schedule/verify/data.h"

namespace roda::schedule::verifier {

// Happens-before: vector clocks, and the accesses that a piece of memory remembers.
//
// A thread is one lane of one rank. Its own time advances whenever it tells others something (a message, a signal), so
// an event of time t is known to whoever has a clock that covers (thread, t).
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
  const Event* unordered_with_read(const Clock& clock) const { return clock.covers(write_) ? nullptr : &write_; }
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

// Does what may complain in a step; throws a complaint as a Violation.
void in_step(const Schedule& schedule, int lane, int index, auto what) {
  try {
    what();
  } catch (const Complaint& complaint) {
    const Step& step = schedule.lanes[static_cast<std::size_t>(lane)].steps[static_cast<std::size_t>(index)];
    throw Violation{schedule.algorithm, schedule.rank, lane, index, to_text(step) + ": " + complaint.text};
  }
}

// Used once.
class Run {
 public:
  explicit Run(const std::vector<Schedule>& ranks);
  void run();  // throws a Violation

 private:
  struct Cell {  // one chunk of one rank
    Value value = kUndefined;
    History history;
  };
  struct Message {
    int step = 0;  // of the sender
    Range range;
    ClockSnapshot clock;
    bool received = false;
  };
  struct Channel {  // from one lane to the same lane of another rank
    std::vector<Message> messages;
    std::size_t received = 0;
  };
  struct PendingSend {
    int peer;
    std::size_t message;  // in the channel
  };
  struct Thread {
    int rank = 0;
    int lane = 0;
    std::size_t next = 0;  // step
    Clock clock;
    std::vector<PendingSend> sends;
    bool ended = false;  // all steps and sends are over
  };
  struct Signals {  // of one index, from one rank to another
    std::vector<ClockSnapshot> sent;
    std::vector<Event> senders;
    std::size_t waited = 0;
  };
  struct Blocker {  // what a thread that can't go on waits for
    int step;
    int peer;
    std::string reason;
  };

  // run.cc: going through the steps
  void advance(Thread& thread, bool* moved);
  bool ready(const Thread& thread, const Step& step);
  bool received(const Thread& thread, const PendingSend& send);
  const PendingSend* pending_over(const Thread& thread, const Range& range);
  bool try_end(Thread& thread);

  // steps.cc: what each kind does
  void execute(Thread& thread, const Step& step);
  void send(Thread& thread, const Step& step);
  void receive(Thread& thread, const Step& step);
  void store(Thread& thread, const Step& step);
  void dots(Thread& thread, const Step& step);
  void weigh(Thread& thread, const Step& step);
  std::vector<Value> read(Thread& thread, const Range& range);
  void signal(Thread& thread, const Step& step);
  void wait(Thread& thread, const Step& step);
  Value read(Thread& thread, int owner, Space space, int chunk);
  void write(Thread& thread, int owner, Space space, int chunk, Value value);

  // run.cc: how it ended
  void check_deadlock();
  Blocker blocker(const Thread& thread);
  void check_signals();
  void check_end_order();
  void check_results();
  Clock clock_at_end(int rank);

  Thread& thread_of(int rank, int lane) { return threads_[static_cast<std::size_t>(rank * lanes_ + lane)]; }
  const Schedule& schedule_of(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  const std::vector<Step>& steps_of(const Thread& thread) const;
  Cell& cell(int rank, Space space, int chunk);
  Channel& channel(int from, int to, int lane);
  Signals& signals(int from, int to, int index);
  Event now(const Thread& thread) const;
  std::string describe(const Event& event) const;
  Violation at(const Thread& thread, int step, std::string message) const;

  const std::vector<Schedule>& ranks_;
  const int size_;
  const int lanes_;
  Expressions expressions_;
  std::vector<Thread> threads_;           // [rank * lanes_ + lane]
  std::vector<std::vector<Cell>> cells_;  // [rank * 4 + space][chunk]
  std::vector<Channel> channels_;         // [(from * size_ + to) * lanes_ + lane]
  std::vector<Signals> signals_;          // [(from * size_ + to) * kMaxSignals + index]
};

}  // namespace roda::schedule::verifier
