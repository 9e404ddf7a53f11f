#include "algorithms/schedule/verify/run.h"

#include <algorithm>
#include <utility>

namespace roda::schedule::verifier {
namespace {

int most_lanes(const std::vector<Schedule>& ranks) {
  std::size_t most = 1;
  for (const Schedule& schedule : ranks) most = std::max(most, schedule.lanes.size());
  return static_cast<int>(most);
}

constexpr Space kSpaces[] = {Space::kInput, Space::kOutput, Space::kScratch, Space::kProducts};

}  // namespace

// A rank's start is the first event of its lane 0; it defines the rank's memory, and all its lanes come after it.
Run::Run(const std::vector<Schedule>& ranks)
    : ranks_(ranks),
      size_(static_cast<int>(ranks.size())),
      lanes_(most_lanes(ranks)),
      expressions_(size_, ranks.front().chunks) {
  const std::size_t pairs = ranks.size() * ranks.size();
  channels_.resize(pairs * static_cast<std::size_t>(lanes_));
  signals_.resize(pairs * static_cast<std::size_t>(kMaxSignals));
  for (int rank = 0; rank < size_; ++rank) {
    const int first = rank * lanes_;
    for (int lane = 0; lane < lanes_; ++lane) {
      Thread thread{rank, lane, 0, Clock(size_ * lanes_), {}, false};
      thread.clock.set(first, 1);
      thread.clock.set(first + lane, 2);
      threads_.push_back(std::move(thread));
    }
    for (const Space space : kSpaces) {
      std::vector<Cell> cells(static_cast<std::size_t>(chunk_count(schedule_of(rank), space)));
      for (std::size_t chunk = 0; chunk < cells.size(); ++chunk) {
        cells[chunk].value = initial_value(schedule_of(rank), space, static_cast<int>(chunk), expressions_);
        cells[chunk].history.record_write({first, 1, -1});
      }
      cells_.push_back(std::move(cells));
    }
  }
}

void Run::run() {
  for (bool moved = true; moved;) {
    moved = false;
    for (Thread& thread : threads_) advance(thread, &moved);
  }
  check_deadlock();
  check_signals();
  check_end_order();
  check_results();
}

// As far as the thread gets.
void Run::advance(Thread& thread, bool* moved) {
  const std::vector<Step>& steps = steps_of(thread);
  for (; thread.next < steps.size() && ready(thread, steps[thread.next]); ++thread.next) {
    in_step(schedule_of(thread.rank), thread.lane, static_cast<int>(thread.next),
            [&] { execute(thread, steps[thread.next]); });
    *moved = true;
  }
  if (try_end(thread)) *moved = true;
}

bool Run::ready(const Thread& thread, const Step& step) {
  if (writes_locally(step.kind) && pending_over(thread, step.dst) != nullptr) return false;
  if (step.kind == StepKind::kRecv || step.kind == StepKind::kRecvReduce) {
    const Channel& from = channel(step.peer, thread.rank, thread.lane);
    return from.received < from.messages.size();
  }
  if (step.kind != StepKind::kWait) return true;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == thread.rank || (step.peer != kAllPeers && step.peer != peer)) continue;
    const Signals& from = signals(peer, thread.rank, step.signal);
    if (from.waited == from.sent.size()) return false;
  }
  return true;
}

bool Run::received(const Thread& thread, const PendingSend& send) {
  return channel(thread.rank, send.peer, thread.lane).messages[send.message].received;
}

// The first send that has not ended and reads some of the range.
const Run::PendingSend* Run::pending_over(const Thread& thread, const Range& range) {
  for (const PendingSend& send : thread.sends) {
    const Message& message = channel(thread.rank, send.peer, thread.lane).messages[send.message];
    if (!message.received && overlap(message.range, range)) return &send;
  }
  return nullptr;
}

bool Run::try_end(Thread& thread) {
  if (thread.ended || thread.next < steps_of(thread).size()) return false;
  thread.ended = std::ranges::all_of(thread.sends, [&](const PendingSend& send) { return received(thread, send); });
  return thread.ended;
}

const std::vector<Step>& Run::steps_of(const Thread& thread) const {
  static const std::vector<Step> none;
  const std::vector<Lane>& lanes = schedule_of(thread.rank).lanes;
  const auto lane = static_cast<std::size_t>(thread.lane);
  return lane < lanes.size() ? lanes[lane].steps : none;
}

Run::Cell& Run::cell(int rank, Space space, int chunk) {
  return cells_[static_cast<std::size_t>(rank) * 4 + static_cast<std::size_t>(space)][static_cast<std::size_t>(chunk)];
}

Run::Channel& Run::channel(int from, int to, int lane) {
  return channels_[static_cast<std::size_t>((from * size_ + to) * lanes_ + lane)];
}

Run::Signals& Run::signals(int from, int to, int index) {
  return signals_[static_cast<std::size_t>((from * size_ + to) * kMaxSignals + index)];
}

Event Run::now(const Thread& thread) const {
  const int number = thread.rank * lanes_ + thread.lane;
  return {number, thread.clock.at(number), static_cast<int>(thread.next)};
}

Violation Run::at(const Thread& thread, int step, std::string message) const {
  return {schedule_of(thread.rank).algorithm, thread.rank, thread.lane, step, std::move(message)};
}

std::string Run::describe(const Event& event) const {
  const Thread& thread = threads_[static_cast<std::size_t>(event.thread)];
  const std::string rank = "rank " + std::to_string(thread.rank);
  if (event.step < 0) return "the start of " + rank;
  return "step " + std::to_string(event.step) + " of " + rank + ", lane " + std::to_string(thread.lane) + " (" +
         to_text(steps_of(thread)[static_cast<std::size_t>(event.step)]) + ")";
}

// Of all threads that are stuck, one that waits for somebody who has ended is the cause; if there is none, it is a
// circle and the first of it is named.
void Run::check_deadlock() {
  const Thread* stuck = nullptr;
  for (const Thread& thread : threads_) {
    if (thread.ended) continue;
    if (stuck == nullptr) stuck = &thread;
    const Blocker cause = blocker(thread);
    if (!thread_of(cause.peer, thread.lane).ended) continue;
    throw at(thread, cause.step, cause.reason + ", which has ended");
  }
  if (stuck == nullptr) return;
  const Blocker first = blocker(*stuck);
  const Thread& other = thread_of(first.peer, stuck->lane);
  throw at(*stuck, first.step, "deadlock: " + first.reason + "; " + blocker(other).reason);
}

Run::Blocker Run::blocker(const Thread& thread) {
  const std::vector<Step>& steps = steps_of(thread);
  const std::string who = "rank " + std::to_string(thread.rank);
  if (thread.next == steps.size()) {
    for (const PendingSend& send : thread.sends) {
      if (received(thread, send)) continue;
      const int step = channel(thread.rank, send.peer, thread.lane).messages[send.message].step;
      return {step, send.peer,
              "message of step " + std::to_string(step) + " of " + who + " is not received by rank " +
                  std::to_string(send.peer)};
    }
  }
  const Step& step = steps[thread.next];
  const int index = static_cast<int>(thread.next);
  const std::string place = who + " waits in step " + std::to_string(index) + " (" + to_text(step) + ") for rank ";
  if (const PendingSend* send = writes_locally(step.kind) ? pending_over(thread, step.dst) : nullptr) {
    return {index, send->peer, place + std::to_string(send->peer) + " to receive what it would overwrite"};
  }
  int peer = step.peer;
  for (int other = 0; peer == kAllPeers; ++other) {
    if (other == thread.rank) continue;
    const Signals& from = signals(other, thread.rank, step.signal);
    if (from.waited == from.sent.size()) peer = other;
  }
  return {index, peer, place + std::to_string(peer)};
}

// A signal left over would be taken for the next run's.
void Run::check_signals() {
  for (std::size_t i = 0; i < signals_.size(); ++i) {
    const Signals& some = signals_[i];
    if (some.waited == some.sent.size()) continue;
    const Event& event = some.senders[some.waited];
    const int peer = static_cast<int>(i / static_cast<std::size_t>(kMaxSignals)) % size_;
    throw at(threads_[static_cast<std::size_t>(event.thread)], event.step,
             "rank " + std::to_string(peer) + " never waits for this signal");
  }
}

Clock Run::clock_at_end(int rank) {
  Clock clock = thread_of(rank, 0).clock;
  for (int lane = 1; lane < lanes_; ++lane) clock.join(thread_of(rank, lane).clock);
  return clock;
}

// When a rank has ended its memory is its user's again. For a barrier: not before everybody's start.
void Run::check_end_order() {
  for (int rank = 0; rank < size_; ++rank) {
    const Schedule& schedule = schedule_of(rank);
    const Clock end = clock_at_end(rank);
    for (int peer = 0; schedule.collective == Collective::kBarrier && peer < size_; ++peer) {
      if (end.at(peer * lanes_) >= 1) continue;
      throw Violation{schedule.algorithm, rank, -1, -1, "may end before rank " + std::to_string(peer) + " has started"};
    }
    for (const Space space : {Space::kInput, Space::kOutput, Space::kScratch}) {
      // Of an expanded schedule what peers read lies in memory of the transport's, which is there for longer.
      const bool may_linger = space == Space::kInput || (space == Space::kScratch && !schedule.scratch.empty());
      if (may_linger && schedule.reads_linger) continue;
      for (int chunk = 0; chunk < chunk_count(schedule, space); ++chunk) {
        const Event* other = cell(rank, space, chunk).history.unordered_with_end(end);
        if (other == nullptr) continue;
        throw Violation{schedule.algorithm, rank, -1, -1,
                        "may end before " + describe(*other) + " is done with " + to_text(Range{space, chunk, 1})};
      }
    }
  }
}

void Run::check_results() {
  for (const Schedule& schedule : ranks_) {
    try {
      for (int chunk = 0; chunk < chunk_count(schedule, Space::kOutput); ++chunk) {
        const Value value = cell(schedule.rank, Space::kOutput, chunk).value;
        check_result(schedule, chunk, value, expressions_);
        if (is_allreduction(schedule.collective) && value != cell(0, Space::kOutput, chunk).value) {
          complain("output[" + std::to_string(chunk) + "] is summed in another order than on rank 0");
        }
      }
    } catch (const Complaint& complaint) {
      throw Violation{schedule.algorithm, schedule.rank, -1, -1, complaint.text};
    }
  }
}

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
