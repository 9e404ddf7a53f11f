// Playback: how lanes go through their steps.
#include <algorithm>
#include <cmath>

#include "algorithms/index.h"
#include "tools/sim/model/playback.h"

namespace roda::sim {
namespace {

constexpr double kPicosecondsPerByte = 1e3;  // at 1 GB/s

Time rounded(double picoseconds) { return static_cast<Time>(picoseconds + 0.5); }

bool gets(StepKind kind) { return kind == StepKind::kGet || kind == StepKind::kGetReduce; }
bool receives(StepKind kind) { return kind == StepKind::kRecv || kind == StepKind::kRecvReduce || gets(kind); }

}  // namespace

std::int32_t parts_of(const Actor& actor, std::size_t stage, const PlaybackOptions& options) {
  const double bytes = options.stages[stage].bytes;
  if (bytes <= 0) return 1;
  return std::max(1, static_cast<std::int32_t>(std::ceil(actor.shares[stage] * options.piece_bytes / bytes - 1e-9)));
}

// Signals before lanes.
std::int32_t Playback::signal_tag(std::size_t stage, std::int32_t part, std::int32_t signal) const {
  return stage_tags_[stage].first + part * stage_tags_[stage].each + signal;
}
std::int32_t Playback::lane_tag(std::size_t stage, const LaneState& state, std::int32_t lane) const {
  return signal_tag(stage, state.part, schedule::kMaxSignals) + lane;
}
Playback::Place Playback::place_of(std::int32_t tag) const {
  std::size_t stage = stage_tags_.size() - 1;
  while (stage_tags_[stage].first > tag) --stage;
  const std::int32_t rest = tag - stage_tags_[stage].first;
  return {stage, rest / stage_tags_[stage].each, rest % stage_tags_[stage].each - schedule::kMaxSignals};
}

std::int32_t Playback::segments(std::size_t stage, double bytes) const {
  const double count = bytes / options_.stages[stage].segment_bytes;
  return count <= 1 ? 1 : count >= kMostSegments ? kMostSegments : static_cast<std::int32_t>(count + 0.999999);
}

// The processor time that all messages of the op take.
Time Playback::overhead(const Actor& actor, std::size_t stage, const Cost& op, double bytes) const {
  const double messages = std::max(1.0, bytes / options_.stages[stage].segment_bytes);
  const Level& level = cluster_.levels[at(actor.slots[at(op.peer)].level)];
  return rounded(level.overhead_us * kPicosecondsPerMicrosecond * messages);
}

// Until the peer's memory hears of a get: what is mapped is read at once.
Time Playback::request_time(const Slot& slot) const {
  const Level& level = cluster_.levels[at(slot.level)];
  return level.name == topology::kHost ? 0 : rounded(level.latency_us * kPicosecondsPerMicrosecond);
}

Time Playback::work(const Cost& op, double bytes) const {
  const bool is_there = op.kind == StepKind::kGet || (op.kind == StepKind::kRecv && op.wire == 1);
  if (is_there) return 0;
  const double rate = op.kind == StepKind::kCopy ? cluster_.copy_GBps : cluster_.reduce_GBps;
  return rounded(bytes * kPicosecondsPerByte / rate);
}

std::int64_t Playback::turns(const Rounds& rounds) const {
  const auto found = options_.shortened.find(rounds.repeat);
  return found == options_.shortened.end() ? rounds.repeat : found->second;
}

const Cost* Playback::current_op(std::int32_t actor, const PieceRun& run, std::int32_t lane) const {
  const LaneState& state = run.lanes[at(lane)];
  const auto& lanes = actors_.actors[at(actor)].stages[run.stage];
  const LaneCosts& all = lanes[at(lane) % lanes.size()];
  return at(state.rounds) == all.size() ? nullptr : &all[at(state.rounds)].ops[at(state.op)];
}

void Playback::begin_pieces(std::int32_t actor, std::int32_t cause) {
  ActorState& state = states_[at(actor)];
  while (state.begun < options_.pieces && state.begun - state.ended < options_.in_flight) {
    const std::int32_t run = state.begun % options_.in_flight;
    PieceRun& piece = state.runs[at(run)];
    piece.piece = state.begun++;
    piece.stage = 0;
    piece.consumed.assign(actors_.actors[at(actor)].slots.size() * at(tags_), 0);
    begin_stage(actor, run, cause);
  }
}

// Stages that the rank sits out, and lanes without steps, end at once.
void Playback::begin_stage(std::int32_t actor, std::int32_t run, std::int32_t cause) {
  ActorState& state = states_[at(actor)];
  PieceRun& piece = state.runs[at(run)];
  const auto& stages = actors_.actors[at(actor)].stages;
  while (piece.stage < stages.size() && stages[piece.stage].empty()) ++piece.stage;
  if (piece.stage == stages.size()) {
    piece.lanes.clear();
    piece.stage = stages.size();
    end_ = std::max(end_, now_);
    // Pieces end in order: a younger one that is done waits for the older.
    while (state.ended < state.begun && state.runs[at(state.ended % options_.in_flight)].stage == stages.size()) {
      ++state.ended;
    }
    return begin_pieces(actor, cause);
  }
  piece.parts = parts_of(actors_.actors[at(actor)], piece.stage, options_);
  piece.begun = piece.ended = 0;
  LaneState none;
  none.done = true;
  piece.lanes.assign(stages[piece.stage].size() * at(options_.stages[piece.stage].in_flight), none);
  begin_parts(actor, run, cause);
}

// An op that begins may end at once, and others with it.
void Playback::begin_parts(std::int32_t actor, std::int32_t run, std::int32_t cause) {
  PieceRun& piece = states_[at(actor)].runs[at(run)];
  const std::int32_t number = piece.piece;
  const std::size_t stage = piece.stage;
  const auto is_there = [&] { return piece.piece == number && piece.stage == stage; };
  while (is_there() && piece.begun < piece.parts && piece.begun - piece.ended < options_.stages[stage].in_flight) {
    const Place first{stage, piece.begun++, 0};
    const std::int32_t begin = index_of(actor, first), end = begin + lanes_of(actor, stage);
    for (std::int32_t lane = begin; lane < end; ++lane) {
      piece.lanes[at(lane)] = LaneState();
      piece.lanes[at(lane)].part = first.part;
      piece.lanes[at(lane)].cause = cause;
    }
    for (std::int32_t lane = begin; is_there() && lane < end; ++lane) advance(actor, run, lane);
  }
}

// Parts end in order, as pieces do.
void Playback::end_lane(std::int32_t actor, std::int32_t run, std::int32_t lane) {
  PieceRun& piece = states_[at(actor)].runs[at(run)];
  piece.lanes[at(lane)].done = true;
  const std::int32_t cause = piece.lanes[at(lane)].cause;
  const std::int32_t before = piece.ended;
  for (; piece.ended < piece.begun; ++piece.ended) {
    const auto first = piece.lanes.begin() + index_of(actor, {piece.stage, piece.ended, 0});
    if (!std::all_of(first, first + lanes_of(actor, piece.stage), [](const LaneState& each) { return each.done; }))
      break;
  }
  if (piece.ended == piece.parts) {
    ++piece.stage;
    begin_stage(actor, run, cause);
  } else if (piece.ended != before) {
    begin_parts(actor, run, cause);
  }
}

void Playback::advance(std::int32_t actor, std::int32_t run, std::int32_t lane) {
  while (true) {
    PieceRun& piece = states_[at(actor)].runs[at(run)];
    LaneState& state = piece.lanes[at(lane)];
    if (state.done || state.working) return;
    const Cost* op = current_op(actor, piece, lane);
    if (op == nullptr) {
      if (state.sends.empty()) end_lane(actor, run, lane);
      return;
    }
    if (!try_op(actor, run, lane, *op)) return;
    next_op(actor, run, &state);
  }
}

void Playback::next_op(std::int32_t actor, std::int32_t run, LaneState* lane) {
  const PieceRun& piece = states_[at(actor)].runs[at(run)];
  const auto number = static_cast<std::size_t>(lane - piece.lanes.data());
  const auto& lanes = actors_.actors[at(actor)].stages[piece.stage];
  const Rounds& rounds = lanes[number % lanes.size()][at(lane->rounds)];
  lane->segment = 0;
  lane->issued = std::max(0, lane->issued - 1);
  if (at(++lane->op) < rounds.ops.size()) return;
  lane->op = 0;
  if (++lane->turn < turns(rounds)) return;
  lane->turn = 0;
  ++lane->rounds;
}

// The send that must have left is still under way.
bool Playback::blocked(const LaneState& lane, const Cost& op) const {
  if (op.blocked_by == 0) return false;
  const std::int32_t ordinal = lane.sent - op.blocked_by;
  return std::ranges::any_of(lane.sends, [&](const PendingSend& send) { return send.ordinal == ordinal; });
}

// True: nothing more to do. False: it waits, or the processor has work to do for it.
bool Playback::try_op(std::int32_t actor, std::int32_t run, std::int32_t lane, const Cost& op) {
  const PieceRun& piece = states_[at(actor)].runs[at(run)];
  const LaneState& state = piece.lanes[at(lane)];
  const double bytes = bytes_of(piece, op);
  if (blocked(state, op)) return false;
  switch (op.kind) {
    case StepKind::kSend:
    case StepKind::kSignal:
      break;
    case StepKind::kPut:
      if (state.issued > 0) return state.sends.empty();
      break;
    case StepKind::kGet:
    case StepKind::kGetReduce:
      if (state.issued > 0) return try_receive(actor, run, lane, op);
      break;
    case StepKind::kRecv:
    case StepKind::kRecvReduce:
      return try_receive(actor, run, lane, op);
    case StepKind::kWait:
      return take_arrival(actor, run, lane, op, signal_tag(piece.stage, state.part, op.signal));
    default:
      enqueue_task(actor, run, lane, work(op, bytes));
      return false;
  }
  Time each = op.follows ? 0 : overhead(actors_.actors[at(actor)], piece.stage, op, bytes);
  if (op.encodes) each += work(op, bytes);
  enqueue_task(actor, run, lane, gets(op.kind) ? each * gets_from(actor, piece, lane) : each);
  return false;
}

// How many gets stand in a row from the lane's op on.
std::int32_t Playback::gets_from(std::int32_t actor, const PieceRun& run, std::int32_t lane) const {
  const auto& lanes = actors_.actors[at(actor)].stages[run.stage];
  const LaneState& state = run.lanes[at(lane)];
  const Rounds& rounds = lanes[at(lane) % lanes.size()][at(state.rounds)];
  const auto from = rounds.ops.begin() + state.op;
  return static_cast<std::int32_t>(
      std::find_if_not(from, rounds.ops.end(), [](const Cost& op) { return gets(op.kind); }) - from);
}

// The next message or signal from the op's peer with that tag, if it is here.
bool Playback::take_arrival(std::int32_t actor, std::int32_t run, std::int32_t lane, const Cost& op, std::int32_t tag) {
  PieceRun& piece = states_[at(actor)].runs[at(run)];
  const Slot& slot = actors_.actors[at(actor)].slots[at(op.peer)];
  const Owner& from = owners_[at(states_[at(slot.actor)].out[at(slot.back)])];
  const auto key = at(piece.piece * tags_ + tag);
  std::int32_t& used = piece.consumed[at(op.peer * tags_ + tag)];
  if (key >= from.arrived.size() || from.arrived[key] <= used) return false;
  if (trace_ != nullptr) {
    const std::int32_t arrival = from.causes.at(static_cast<std::int32_t>(key))[at(used)];
    std::int32_t& cause = piece.lanes[at(lane)].cause;
    const auto& records = trace_->records;
    if (cause < 0 || records[at(arrival)].end >= records[at(cause)].end) cause = arrival;
  }
  ++used;
  return true;
}

// Takes the next segment if it is here.
bool Playback::try_receive(std::int32_t actor, std::int32_t run, std::int32_t lane, const Cost& op) {
  PieceRun& piece = states_[at(actor)].runs[at(run)];
  LaneState& state = piece.lanes[at(lane)];
  const double bytes = bytes_of(piece, op);
  const std::int32_t count = segments(piece.stage, bytes);
  Time duration = work(op, bytes / count);
  if (gets(op.kind)) {
    const auto pulled =
        std::ranges::find_if(state.pulled, [&](const auto& some) { return some.first == op.peer && some.second > 0; });
    if (pulled == state.pulled.end()) return false;
    --pulled->second;
  } else {
    if (!take_arrival(actor, run, lane, op, lane_tag(piece.stage, state, lane % lanes_of(actor, piece.stage)))) {
      return false;
    }
    duration += overhead(actors_.actors[at(actor)], piece.stage, op, bytes) / count;
  }
  enqueue_task(actor, run, lane, duration);
  return false;
}

// Hands the op's messages to the network.
void Playback::post(std::int32_t actor, std::int32_t run, std::int32_t lane, const Cost& op, std::int32_t cause) {
  ActorState& self = states_[at(actor)];
  PieceRun& piece = self.runs[at(run)];
  LaneState& state = piece.lanes[at(lane)];
  const bool signal = op.kind == StepKind::kSignal;
  const double bytes = bytes_of(piece, op);
  const std::int32_t count = signal ? 1 : segments(piece.stage, bytes);
  const std::int32_t tag = signal ? signal_tag(piece.stage, state.part, op.signal)
                                  : lane_tag(piece.stage, state, lane % lanes_of(actor, piece.stage));
  const Message message{bytes * op.wire / count, piece.piece * tags_ + tag, cause};
  if (gets(op.kind)) {
    const Time arrival = now_ + request_time(actors_.actors[at(actor)].slots[at(op.peer)]);
    for (std::int32_t i = 0; i < count; ++i) add_event(arrival, What::kRequest, self.in[at(op.peer)], message);
    return;
  }
  if (!signal) state.sends.push_back({state.sent++, op.peer, count});
  for (std::int32_t i = 0; i < count; ++i) network_.send(self.out[at(op.peer)], message);
}

// The processor is done with a task of the lane's.
void Playback::complete(std::int32_t actor, const Task& task) {
  PieceRun& piece = states_[at(actor)].runs[at(task.run)];
  LaneState& lane = piece.lanes[at(task.lane)];
  const Cost& op = *current_op(actor, piece, task.lane);
  const std::int32_t record = note_task(actor, task);
  lane.working = false;
  lane.cause = record;
  const bool issues = lane.issued == 0 && (gets(op.kind) || op.kind == StepKind::kPut);
  if (issues) {
    lane.issued = std::max(1, gets_from(actor, piece, task.lane));
    for (std::int32_t i = 0; i < lane.issued; ++i) post(actor, task.run, task.lane, (&op)[i], record);
    return advance(actor, task.run, task.lane);
  }
  if (op.kind == StepKind::kSend || op.kind == StepKind::kSignal) post(actor, task.run, task.lane, op, record);
  if (!receives(op.kind) || ++lane.segment == segments(piece.stage, bytes_of(piece, op))) {
    next_op(actor, task.run, &lane);
  }
  advance(actor, task.run, task.lane);
}

}  // namespace roda::sim
