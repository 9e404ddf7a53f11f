#include <string>

#include "algorithms/schedule/print.h"
#include "algorithms/schedule/verify/layout.h"
#include "algorithms/schedule/verify/run.h"

namespace roda::schedule::verifier {

// Of all threads that are stuck, one that waits for somebody who has ended is the cause; if there is none, it is a
// circle and the first of it is named.
std::optional<Violation> Run::deadlock() const {
  const Thread* stuck = nullptr;
  for (const Thread& thread : threads_) {
    if (thread.ended) continue;
    if (stuck == nullptr) stuck = &thread;
    const Blocker cause = blocker(thread);
    if (!thread_of(cause.peer, thread.lane).ended) continue;
    return at(thread, cause.step, cause.reason + ", which has ended");
  }
  if (stuck == nullptr) return std::nullopt;
  const Blocker first = blocker(*stuck);
  const Thread& other = thread_of(first.peer, stuck->lane);
  return at(*stuck, first.step, "deadlock: " + first.reason + "; " + blocker(other).reason);
}

Run::Blocker Run::blocker(const Thread& thread) const {
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
std::optional<Violation> Run::unused_signal() const {
  for (std::size_t i = 0; i < signals_.size(); ++i) {
    const Signals& some = signals_[i];
    if (some.waited == some.sent.size()) continue;
    const Event& event = some.senders[some.waited];
    const int peer = static_cast<int>(i / static_cast<std::size_t>(kMaxSignals)) % size_;
    return at(threads_[static_cast<std::size_t>(event.thread)], event.step,
              "rank " + std::to_string(peer) + " never waits for this signal");
  }
  return std::nullopt;
}

Clock Run::clock_at_end(int rank) const {
  Clock clock = thread_of(rank, 0).clock;
  for (int lane = 1; lane < lanes_; ++lane) clock.join(thread_of(rank, lane).clock);
  return clock;
}

// When a rank has ended its memory is its user's again. For a barrier: not before everybody's start.
std::optional<Violation> Run::unordered_end() const {
  for (int rank = 0; rank < size_; ++rank) {
    const Schedule& schedule = schedule_of(rank);
    const Clock end = clock_at_end(rank);
    for (int peer = 0; schedule.collective == Collective::kBarrier && peer < size_; ++peer) {
      if (end.at(peer * lanes_) >= 1) continue;
      return Violation{schedule.algorithm, rank, -1, -1,
                       "may end before rank " + std::to_string(peer) + " has started"};
    }
    for (const Space space : {Space::kInput, Space::kOutput, Space::kScratch}) {
      // Of an expanded schedule what peers read lies in memory of the transport's, which is there for longer.
      const bool may_linger = space == Space::kInput || (space == Space::kScratch && !schedule.scratch.empty());
      if (may_linger && schedule.reads_linger) continue;
      for (int chunk = 0; chunk < chunk_count(schedule, space); ++chunk) {
        const Event* other = cell(rank, space, chunk).history.unordered_with_end(end);
        if (other == nullptr) continue;
        return Violation{schedule.algorithm, rank, -1, -1,
                         "may end before " + describe(*other) + " is done with " + to_text(Range{space, chunk, 1})};
      }
    }
  }
  return std::nullopt;
}

std::optional<Violation> Run::wrong_end() {
  for (int rank = 0; rank < size_; ++rank) {
    const Schedule& schedule = schedule_of(rank);
    for (int chunk = 0; chunk < chunk_count(schedule, Space::kOutput); ++chunk) {
      const Value value = cell(rank, Space::kOutput, chunk).value;
      if (auto wrong = wrong_result(schedule, chunk, value, expressions_)) {
        return Violation{schedule.algorithm, rank, -1, -1, *wrong};
      }
      if (!is_allreduction(schedule.collective) || value == cell(0, Space::kOutput, chunk).value) continue;
      return Violation{schedule.algorithm, rank, -1, -1,
                       "output[" + std::to_string(chunk) + "] is summed in another order than on rank 0"};
    }
  }
  return std::nullopt;
}

}  // namespace roda::schedule::verifier
