#include "algorithms/schedule/verify/proof.h"

#include <algorithm>
#include <utility>

#include "algorithms/index.h"

namespace roda::schedule::verifier {
namespace {

bool writes_own(const Op& op) {
  return op.kind != OpKind::kSend && op.kind != OpKind::kPut && op.kind != OpKind::kSignal && op.kind != OpKind::kWait;
}

const std::vector<Op>& ops_of(const Frame& frame, int lane) {
  static const std::vector<Op> none;
  const std::vector<LaneProgram>& lanes = frame.program->lanes;
  return at(lane) < lanes.size() ? lanes[at(lane)].ops : none;
}

// Chunks that happen to be empty are not sent at all, as both sides know.
bool is_passed_over(const Frame& frame, const Op& op) {
  const Operand& data = op.kind == OpKind::kSend ? op.src : op.dst;
  const bool is_message = op.kind == OpKind::kSend || op.kind == OpKind::kRecv || op.kind == OpKind::kRecvReduce;
  return is_message && data.count > 0 && frame.places.bytes(data) == 0;
}

}  // namespace

void Proof::run() {
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < size_; ++rank) advance(rank, &moved);
  }
  check_deadlock();
  check_signals();
  check_end_order();
  check_results();
}

void Proof::in_op(const Thread& thread, const Frame* frame, const Op* op, auto what) {
  try {
    what();
  } catch (const Complaint& complaint) {
    throw violation(thread, frame, op, (op == nullptr ? "" : to_text(*op, *frame->program) + ": ") + complaint.text);
  }
}

// As far as the rank gets.
void Proof::advance(int number, bool* moved) {
  Rank& rank = rank_of(number);
  Thread& thread = thread_of(number, 0);
  for (; rank.act < rank.acts.size(); ++rank.act, *moved = true) {
    const Act& act = rank.acts[rank.act];
    if (act.frame == nullptr) {
      in_op(thread, nullptr, nullptr, [&] { copy(thread, act.to, act.from, act.count); });
    } else if (!pass(number, *act.frame, moved)) {
      return;
    }
  }
}

// Lanes come after what was brought in, and what is brought out after all of them. False: not over.
bool Proof::pass(int number, Frame& frame, bool* moved) {
  Rank& rank = rank_of(number);
  Thread& first = thread_of(number, 0);
  if (!rank.entered) {
    in_op(first, &frame, nullptr, [&] { bring_in(first, frame); });
    for (int lane = lanes_ - 1; lane >= 0; --lane) {
      Thread& thread = thread_of(number, lane);
      thread.clock.join(first.clock);
      thread.clock.tick(number_of(thread));
      thread.next = 0;
      thread.sends.clear();
      thread.ended = false;
    }
    rank.entered = true;
  }
  bool over = true;
  for (int lane = 0; lane < lanes_; ++lane) over &= advance(thread_of(number, lane), frame, moved);
  if (!over) return false;
  for (int lane = 1; lane < lanes_; ++lane) first.clock.join(thread_of(number, lane).clock);
  frame.end = std::make_shared<const Clock>(first.clock);
  in_op(first, &frame, nullptr, [&] { bring_out(first, frame); });
  rank.entered = false;
  return true;
}

bool Proof::advance(Thread& thread, Frame& frame, bool* moved) {
  const std::vector<Op>& ops = ops_of(frame, thread.lane);
  for (; thread.next < ops.size() && ready(thread, frame, ops[thread.next]); ++thread.next, *moved = true) {
    const Op& op = ops[thread.next];
    if (is_passed_over(frame, op)) continue;
    in_op(thread, &frame, &op, [&] { execute(thread, frame, op); });
    frame.session->traffic.pass(frame.index, thread.lane, op);
  }
  if (thread.ended || thread.next < ops.size()) return thread.ended;
  thread.ended = std::ranges::all_of(thread.sends, [&](const PendingSend& s) { return received(thread, frame, s); });
  *moved |= thread.ended;
  return thread.ended;
}

bool Proof::ready(const Thread& thread, const Frame& frame, const Op& op) {
  if (is_passed_over(frame, op)) return true;
  if (!thread.sends.empty() && writes_own(op) && op.dst.count > 0) {
    if (pending_over(thread, frame, first_of(frame, op.dst), frame.places.bytes(op.dst)) != nullptr) return false;
  }
  return frame.session->traffic.ready(frame.index, thread.lane, op);
}

bool Proof::received(const Thread& thread, const Frame& frame, const PendingSend& send) {
  Session& session = *frame.session;
  return session.messages[session.traffic.channel(frame.index, send.peer, thread.lane)][send.number].received;
}

// The first send that has not ended and reads some of the cells.
const Proof::PendingSend* Proof::pending_over(const Thread& thread, const Frame& frame, CellNumber first,
                                              std::size_t count) {
  Session& session = *frame.session;
  for (const PendingSend& send : thread.sends) {
    const Message& message =
        session.messages[session.traffic.channel(frame.index, send.peer, thread.lane)][send.number];
    const bool overlaps = message.first < first + count && first < message.first + message.count;
    if (!message.received && overlaps) return &send;
  }
  return nullptr;
}

Event Proof::now(const Thread& thread) const {
  const int number = number_of(thread);
  const Rank& rank = memory_[at(thread.rank)];
  const Frame* frame = rank.entered ? rank.acts[rank.act].frame : nullptr;
  const bool runs = frame != nullptr && thread.next < ops_of(*frame, thread.lane).size();
  return {number, thread.clock.at(number), frame, runs ? &ops_of(*frame, thread.lane)[thread.next] : nullptr};
}

Violation Proof::violation(const Thread& thread, const Frame* frame, const Op* op, std::string message) const {
  const std::string& name = frame == nullptr ? program_of(thread.rank).algorithm : frame->program->algorithm;
  const bool has_op = op != nullptr;
  return {name, thread.rank, has_op ? thread.lane : -1, has_op ? static_cast<int>(op->step) : -1, std::move(message)};
}

std::string Proof::describe(const Event& event) const {
  const Thread& thread = threads_[static_cast<std::size_t>(event.thread)];
  const std::string rank = "rank " + std::to_string(thread.rank);
  if (event.op == nullptr) return (event.frame == nullptr ? "the start of " : "the copies of ") + rank;
  return "step " + std::to_string(event.op->step) + " of " + rank + ", lane " + std::to_string(thread.lane) + " (" +
         to_text(*event.op, *event.frame->program) + ")";
}

std::string Proof::name_of(int rank, const Cell& cell) const {
  return to_text(cell.name) + (cell.in_block ? " in the block" : "") + " of rank " + std::to_string(rank);
}

// Of all threads that are stuck, one that waits for somebody who has ended is the cause; if there is none, it is a
// circle and the first of it is named.
void Proof::check_deadlock() {
  const Thread* stuck = nullptr;
  for (const Thread& thread : threads_) {
    const Frame* frame = frame_of(thread.rank);
    if (frame == nullptr || thread.ended) continue;
    if (stuck == nullptr) stuck = &thread;
    const Blocker cause = blocker(thread, *frame);
    const Frame& peer = *frame->session->frames[at(cause.peer)];
    if (frame_of(peer.rank) == &peer && !thread_of(peer.rank, thread.lane).ended) continue;
    throw violation(thread, frame, cause.op, cause.reason + ", which has ended");
  }
  if (stuck == nullptr) return;
  const Frame& frame = *frame_of(stuck->rank);
  const Blocker first = blocker(*stuck, frame);
  const Frame& peer = *frame.session->frames[at(first.peer)];
  const Thread& other = thread_of(peer.rank, stuck->lane);
  throw violation(*stuck, &frame, first.op, "deadlock: " + first.reason + "; " + blocker(other, peer).reason);
}

Proof::Blocker Proof::blocker(const Thread& thread, const Frame& frame) {
  Session& session = *frame.session;
  const std::vector<Op>& ops = ops_of(frame, thread.lane);
  const std::string who = "rank " + std::to_string(thread.rank);
  const auto name = [&](int peer) { return std::to_string(session.frames[at(peer)]->rank); };
  if (thread.next == ops.size()) {
    for (const PendingSend& send : thread.sends) {
      if (received(thread, frame, send)) continue;
      const std::size_t channel = session.traffic.channel(frame.index, send.peer, thread.lane);
      const Op* op = session.messages[channel][send.number].op;
      return {
          op, send.peer,
          "message of step " + std::to_string(op->step) + " of " + who + " is not received by rank " + name(send.peer)};
    }
  }
  const Op& op = ops[thread.next];
  const std::string place =
      who + " waits in step " + std::to_string(op.step) + " (" + to_text(op, *frame.program) + ") for rank ";
  const bool writes = writes_own(op) && op.dst.count > 0;
  const PendingSend* send =
      writes ? pending_over(thread, frame, first_of(frame, op.dst), frame.places.bytes(op.dst)) : nullptr;
  if (send != nullptr) return {&op, send->peer, place + name(send->peer) + " to receive what it would overwrite"};
  int peer = op.peer;
  session.traffic.for_peers(frame.index, op, [&](int other) {
    if (peer == kAllPeers && session.traffic.value(other, frame.index, op) < op.value) peer = other;
  });
  return {&op, peer, place + name(peer)};
}

// A signal left over would be taken for the next run's.
void Proof::check_signals() {
  for (const auto& [key, session] : sessions_) {
    for (std::size_t i = 0; i < session.signals.size(); ++i) {
      if (session.waited[i] == session.signals[i].size()) continue;
      const Event& event = session.signals[i][session.waited[i]].sender;
      const std::size_t peer = i / static_cast<std::size_t>(kMaxSignals) % session.frames.size();
      throw violation(threads_[static_cast<std::size_t>(event.thread)], event.frame, event.op,
                      "rank " + std::to_string(session.frames[peer]->rank) + " never waits for this signal");
    }
  }
}

bool Proof::may_linger(const Frame& frame, const Cell& cell, const Event& read) const {
  if (frame.blocks == Blocks::kUser && cell.name.space != Space::kInput) return false;
  const auto& frames = frame.session->frames;
  const int reader = threads_[static_cast<std::size_t>(read.thread)].rank;
  const auto is_reader = [&](std::int32_t member) { return frames[at(member)]->rank == reader; };
  const auto late = std::ranges::find_if(frame.program->late_readers, is_reader);
  return late != frame.program->late_readers.end() &&
         std::ranges::count(frames[at(*late)]->program->tell_readers, frame.index) > 0;
}

void Proof::check_end(const Frame* frame, int rank, const Clock& end, CellNumber number) {
  const Cell& at_end = cell(rank, number);
  const auto lingers = [&](const Event& read) { return frame != nullptr && may_linger(*frame, at_end, read); };
  const Event* other = at_end.history.unordered_with_end(end, lingers);
  if (other == nullptr) return;
  throw violation(thread_of(rank, 0), frame, nullptr,
                  "may end before " + describe(*other) + " is done with " + to_text(at_end.name));
}

// When a call has ended its block is another's, and the user's memory the user's again. For a barrier: not before
// everybody's start.
void Proof::check_end_order() {
  for (int rank = 0; rank < size_; ++rank) {
    const Clock& end = thread_of(rank, 0).clock;
    for (int peer = 0; program_of(rank).collective == Collective::kBarrier && peer < size_; ++peer) {
      if (end.at(peer * lanes_) >= 1) continue;
      throw violation(thread_of(rank, 0), frames_.empty() ? nullptr : &frames_.front(), nullptr,
                      "may end before rank " + std::to_string(peer) + " has started");
    }
  }
  for (const Frame& frame : frames_) {
    for (std::size_t w = 0; w < 2; ++w) {
      const CellNumber block = cell_at(frame.places.block[w]);
      if (block == kNowhere) continue;
      const SpaceMap& map = frame.places.map[w];
      for (std::size_t c = 0; c < map.block.size(); ++c) {
        for (std::size_t i = 0; i < map.prefix[c + 1] - map.prefix[c]; ++i) {
          check_end(&frame, frame.rank, *frame.end, block + map.block[c] + i);
        }
      }
    }
  }
}

void Proof::check_results() {
  for (const Program* program : ranks_) {
    const int rank = program->rank;
    const auto output = [&](int of, int i) -> const Cell& { return cell(of, rank_of(of).spaces[1] + at(i)); };
    try {
      for (int i = 0; i < chunk_count(*program, Space::kOutput) * parts_; ++i) {
        const Value value = output(rank, i).value;
        check_result(*program, i, value, *expressions_);
        roundings_ = std::max(roundings_, expressions_->roundings(value));
        if (is_for_all(program->collective) && value != output(0, i).value) {
          const bool is_rounded = expressions_->roundings(value) + expressions_->roundings(output(0, i).value) > 0;
          complain("output[" + std::to_string(i) + "] is summed in another order than on rank 0" +
                   (is_rounded ? ", or rounded otherwise" : ""));
        }
      }
    } catch (const Complaint& complaint) {
      throw violation(thread_of(rank, 0), nullptr, nullptr, complaint.text);
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

}  // namespace roda::schedule::verifier
