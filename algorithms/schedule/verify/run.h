// The symbolic execution of all ranks' schedules. After check(): every index is valid.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "algorithms/schedule/schedule.h"
#include "algorithms/schedule/verifier.h"
#include "algorithms/schedule/verify/clock.h"
#include "algorithms/schedule/verify/data.h"

namespace roda::schedule::verifier {

// Used once.
class Run {
 public:
  explicit Run(const std::vector<Schedule>& ranks);
  std::optional<Violation> run();

 private:
  using Complaint = std::optional<std::string>;

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
  std::optional<Violation> advance(Thread& thread, bool* moved);
  bool ready(const Thread& thread, const Step& step) const;
  bool received(const Thread& thread, const PendingSend& send) const;
  const PendingSend* pending_over(const Thread& thread, const Range& range) const;
  bool try_end(Thread& thread);

  // steps.cc: what each kind does
  Complaint execute(Thread& thread, const Step& step);
  Complaint send(Thread& thread, const Step& step);
  Complaint receive(Thread& thread, const Step& step);
  Complaint store(Thread& thread, const Step& step);
  Complaint dots(Thread& thread, const Step& step);
  Complaint weigh(Thread& thread, const Step& step);
  Complaint read(Thread& thread, const Range& range, std::vector<Value>* values);
  Complaint signal(Thread& thread, const Step& step);
  Complaint wait(Thread& thread, const Step& step);
  Complaint read(Thread& thread, int owner, Space space, int chunk, Value* value);
  Complaint write(Thread& thread, int owner, Space space, int chunk, Value value);
  Complaint combine_into(Thread& thread, int owner, Space space, int chunk, Value current, Value operand);
  Complaint check_no_pending_send(int owner, Space space, int chunk) const;

  // verdict.cc: how it ended
  std::optional<Violation> deadlock() const;
  Blocker blocker(const Thread& thread) const;
  std::optional<Violation> unused_signal() const;
  std::optional<Violation> unordered_end() const;
  std::optional<Violation> wrong_end();
  Clock clock_at_end(int rank) const;

  Thread& thread_of(int rank, int lane);
  const Thread& thread_of(int rank, int lane) const;
  const Schedule& schedule_of(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  const std::vector<Step>& steps_of(const Thread& thread) const;
  Cell& cell(int rank, Space space, int chunk);
  const Cell& cell(int rank, Space space, int chunk) const;
  Channel& channel(int from, int to, int lane);
  const Channel& channel(int from, int to, int lane) const;
  Signals& signals(int from, int to, int index);
  const Signals& signals(int from, int to, int index) const;
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
