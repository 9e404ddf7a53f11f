#include "algorithms/schedule/verify/run.h"

#include <algorithm>
#include <utility>

#include "algorithms/schedule/print.h"
#include "algorithms/schedule/verify/layout.h"

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

std::optional<Violation> Run::run() {
  bool moved = true;
  while (moved) {
    moved = false;
    for (Thread& thread : threads_) {
      if (std::optional<Violation> violation = advance(thread, &moved)) return violation;
    }
  }
  if (std::optional<Violation> violation = deadlock()) return violation;
  if (std::optional<Violation> violation = unused_signal()) return violation;
  if (std::optional<Violation> violation = unordered_end()) return violation;
  return wrong_end();
}

// As far as the thread gets.
std::optional<Violation> Run::advance(Thread& thread, bool* moved) {
  const std::vector<Step>& steps = steps_of(thread);
  while (thread.next < steps.size() && ready(thread, steps[thread.next])) {
    const Step& step = steps[thread.next];
    if (Complaint complaint = execute(thread, step)) {
      return at(thread, static_cast<int>(thread.next), to_text(step) + ": " + *complaint);
    }
    ++thread.next;
    *moved = true;
  }
  if (try_end(thread)) *moved = true;
  return std::nullopt;
}

bool Run::ready(const Thread& thread, const Step& step) const {
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

bool Run::received(const Thread& thread, const PendingSend& send) const {
  return channel(thread.rank, send.peer, thread.lane).messages[send.message].received;
}

// The first send that has not ended and reads some of the range.
const Run::PendingSend* Run::pending_over(const Thread& thread, const Range& range) const {
  for (const PendingSend& send : thread.sends) {
    const Message& message = channel(thread.rank, send.peer, thread.lane).messages[send.message];
    if (!message.received && overlap(message.range, range)) return &send;
  }
  return nullptr;
}

bool Run::try_end(Thread& thread) {
  if (thread.ended || thread.next < steps_of(thread).size()) return false;
  for (const PendingSend& send : thread.sends) {
    if (!received(thread, send)) return false;
  }
  thread.ended = true;
  return true;
}

Run::Thread& Run::thread_of(int rank, int lane) { return threads_[static_cast<std::size_t>(rank * lanes_ + lane)]; }
const Run::Thread& Run::thread_of(int rank, int lane) const {
  return threads_[static_cast<std::size_t>(rank * lanes_ + lane)];
}

const std::vector<Step>& Run::steps_of(const Thread& thread) const {
  static const std::vector<Step> none;
  const std::vector<Lane>& lanes = schedule_of(thread.rank).lanes;
  const auto lane = static_cast<std::size_t>(thread.lane);
  return lane < lanes.size() ? lanes[lane].steps : none;
}

const Run::Cell& Run::cell(int rank, Space space, int chunk) const {
  return cells_[static_cast<std::size_t>(rank) * 4 + static_cast<std::size_t>(space)][static_cast<std::size_t>(chunk)];
}
Run::Cell& Run::cell(int rank, Space space, int chunk) {
  return const_cast<Cell&>(std::as_const(*this).cell(rank, space, chunk));
}

const Run::Channel& Run::channel(int from, int to, int lane) const {
  return channels_[static_cast<std::size_t>((from * size_ + to) * lanes_ + lane)];
}
Run::Channel& Run::channel(int from, int to, int lane) {
  return const_cast<Channel&>(std::as_const(*this).channel(from, to, lane));
}

const Run::Signals& Run::signals(int from, int to, int index) const {
  return signals_[static_cast<std::size_t>((from * size_ + to) * kMaxSignals + index)];
}
Run::Signals& Run::signals(int from, int to, int index) {
  return const_cast<Signals&>(std::as_const(*this).signals(from, to, index));
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

}  // namespace roda::schedule::verifier
