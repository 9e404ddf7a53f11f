// Engine: how lanes go through their steps.
#include <algorithm>

#include "algorithms/index.h"
#include "algorithms/schedule/sim/engine.h"

namespace roda::sim {
namespace {

constexpr double kPicosecondsPerByte = 1e3;  // at 1 GB/s

Time rounded(double picoseconds) { return static_cast<Time>(picoseconds + 0.5); }

bool gets(StepKind kind) { return kind == StepKind::kGet || kind == StepKind::kGetReduce; }
bool receives(StepKind kind) { return kind == StepKind::kRecv || kind == StepKind::kRecvReduce || gets(kind); }

}  // namespace

// Signals before lanes.
std::int32_t Engine::signal_tag(std::size_t stage, std::int32_t signal) const { return stage_tags_[stage] + signal; }
std::int32_t Engine::lane_tag(std::size_t stage, std::int32_t lane) const {
  return stage_tags_[stage] + schedule::kMaxSignals + lane;
}

std::int32_t Engine::segments(double bytes) const {
  const double count = bytes / options_.segment_bytes;
  return count <= 1 ? 1 : count >= kMostSegments ? kMostSegments : static_cast<std::int32_t>(count + 0.999999);
}

// Of all of the op's messages.
Time Engine::overhead(const Actor& actor, const ActorOp& op, double bytes) const {
  const double messages = std::max(1.0, bytes / options_.segment_bytes);
  const Level& level = cluster_.levels[at(actor.slots[at(op.slot)].level)];
  return rounded(level.overhead_us * kPicosecondsPerMicrosecond * messages);
}

Time Engine::work(const ActorOp& op, double bytes) const {
  if (op.op.kind == StepKind::kRecv || op.op.kind == StepKind::kGet) return 0;
  const double rate = op.op.kind == StepKind::kCopy ? cluster_.copy_GBps : cluster_.reduce_GBps;
  return rounded(bytes * kPicosecondsPerByte / rate);
}

std::int64_t Engine::turns(const ActorBlock& block) const {
  const auto found = options_.shortened.find(block.repeat);
  return found == options_.shortened.end() ? block.repeat : found->second;
}

const ActorOp* Engine::current_op(std::int32_t actor, const PieceRun& run, std::int32_t lane) const {
  const Actor& about = actors_.actors[at(actor)];
  const LaneState& state = run.lanes[at(lane)];
  const auto& blocks = about.stages[run.stage][at(lane)];
  if (at(state.block) == blocks.size()) return nullptr;
  return &about.ops[at(blocks[at(state.block)].begin + state.op)];
}

void Engine::begin_pieces(std::int32_t actor, std::int32_t cause) {
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
void Engine::begin_stage(std::int32_t actor, std::int32_t run, std::int32_t cause) {
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
  piece.lanes.assign(stages[piece.stage].size(), LaneState());
  for (LaneState& lane : piece.lanes) lane.cause = cause;
  const std::int32_t number = piece.piece;
  const std::size_t stage = piece.stage;
  for (std::size_t lane = 0; lane < stages[stage].size(); ++lane) {
    if (piece.piece != number || piece.stage != stage) return;
    advance(actor, run, static_cast<std::int32_t>(lane));
  }
}

void Engine::end_lane(std::int32_t actor, std::int32_t run, std::int32_t lane) {
  PieceRun& piece = states_[at(actor)].runs[at(run)];
  piece.lanes[at(lane)].done = true;
  const std::int32_t cause = piece.lanes[at(lane)].cause;
  if (!std::all_of(piece.lanes.begin(), piece.lanes.end(), [](const LaneState& each) { return each.done; })) return;
  ++piece.stage;
  begin_stage(actor, run, cause);
}

void Engine::advance(std::int32_t actor, std::int32_t run, std::int32_t lane) {
  while (true) {
    PieceRun& piece = states_[at(actor)].runs[at(run)];
    LaneState& state = piece.lanes[at(lane)];
    if (state.done || state.working) return;
    const ActorOp* op = current_op(actor, piece, lane);
    if (op == nullptr) {
      if (state.sends.empty()) end_lane(actor, run, lane);
      return;
    }
    if (!try_op(actor, run, lane, *op)) return;
    next_op(actor, run, &state);
  }
}

void Engine::next_op(std::int32_t actor, std::int32_t run, LaneState* lane) {
  const PieceRun& piece = states_[at(actor)].runs[at(run)];
  const auto number = static_cast<std::size_t>(lane - piece.lanes.data());
  const ActorBlock& block = actors_.actors[at(actor)].stages[piece.stage][number][at(lane->block)];
  lane->segment = lane->pulled = 0;
  lane->issued = false;
  if (++lane->op < block.end - block.begin) return;
  lane->op = 0;
  if (++lane->turn < turns(block)) return;
  lane->turn = 0;
  ++lane->block;
}

// The send that must have left is still under way.
bool Engine::blocked(const LaneState& lane, const ActorOp& op) const {
  if (op.op.blocked_by == 0) return false;
  const std::int32_t ordinal = lane.sent - op.op.blocked_by;
  return std::any_of(lane.sends.begin(), lane.sends.end(),
                     [&](const PendingSend& send) { return send.ordinal == ordinal; });
}

// True: nothing more to do. False: it waits, or the processor has work to do for it.
bool Engine::try_op(std::int32_t actor, std::int32_t run, std::int32_t lane, const ActorOp& op) {
  LaneState& state = states_[at(actor)].runs[at(run)].lanes[at(lane)];
  const Actor& about = actors_.actors[at(actor)];
  const double bytes = bytes_of(op);
  if (blocked(state, op)) return false;
  switch (op.op.kind) {
    case StepKind::kSend:
    case StepKind::kSignal:
      break;
    case StepKind::kPut:
      if (state.issued) return state.sends.empty();
      break;
    case StepKind::kGet:
    case StepKind::kGetReduce:
      if (state.issued) return try_receive(actor, run, lane, op);
      break;
    case StepKind::kRecv:
    case StepKind::kRecvReduce:
      return try_receive(actor, run, lane, op);
    case StepKind::kWait:
      return take_arrival(actor, run, lane, op, signal_tag(states_[at(actor)].runs[at(run)].stage, op.op.signal));
    default:
      enqueue_task(actor, run, lane, work(op, bytes));
      return false;
  }
  enqueue_task(actor, run, lane, overhead(about, op, bytes));
  return false;
}

// The next message or signal from the op's peer with that tag, if it is here.
bool Engine::take_arrival(std::int32_t actor, std::int32_t run, std::int32_t lane, const ActorOp& op,
                          std::int32_t tag) {
  PieceRun& piece = states_[at(actor)].runs[at(run)];
  const Slot& slot = actors_.actors[at(actor)].slots[at(op.slot)];
  const Owner& from = owners_[at(states_[at(slot.actor)].out[at(slot.back)])];
  const auto key = at(piece.piece * tags_ + tag);
  std::int32_t& used = piece.consumed[at(op.slot * tags_ + tag)];
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
bool Engine::try_receive(std::int32_t actor, std::int32_t run, std::int32_t lane, const ActorOp& op) {
  const PieceRun& piece = states_[at(actor)].runs[at(run)];
  const LaneState& state = piece.lanes[at(lane)];
  const double bytes = bytes_of(op);
  const std::int32_t count = segments(bytes);
  Time duration = work(op, bytes / count);
  if (gets(op.op.kind)) {
    if (state.pulled <= state.segment) return false;
  } else {
    if (!take_arrival(actor, run, lane, op, lane_tag(piece.stage, lane))) return false;
    duration += overhead(actors_.actors[at(actor)], op, bytes) / count;
  }
  enqueue_task(actor, run, lane, duration);
  return false;
}

// Hands the op's messages to the network.
void Engine::post(std::int32_t actor, std::int32_t run, std::int32_t lane, const ActorOp& op, std::int32_t cause) {
  ActorState& self = states_[at(actor)];
  PieceRun& piece = self.runs[at(run)];
  LaneState& state = piece.lanes[at(lane)];
  const bool signal = op.op.kind == StepKind::kSignal;
  const double bytes = bytes_of(op);
  const std::int32_t count = signal ? 1 : segments(bytes);
  const std::int32_t tag = signal ? signal_tag(piece.stage, op.op.signal) : lane_tag(piece.stage, lane);
  const Message message{bytes / count, piece.piece * tags_ + tag, cause};
  if (gets(op.op.kind)) {
    const Level& level = cluster_.levels[at(actors_.actors[at(actor)].slots[at(op.slot)].level)];
    const Time arrival = now_ + rounded(level.latency_us * kPicosecondsPerMicrosecond);
    for (std::int32_t i = 0; i < count; ++i) add_event(arrival, What::kRequest, self.in[at(op.slot)], message);
    return;
  }
  if (!signal) state.sends.push_back({state.sent++, op.slot, count});
  for (std::int32_t i = 0; i < count; ++i) network_.send(self.out[at(op.slot)], message);
}

// The processor is done with a task of the lane's.
void Engine::complete(std::int32_t actor, const Task& task) {
  PieceRun& piece = states_[at(actor)].runs[at(task.run)];
  LaneState& lane = piece.lanes[at(task.lane)];
  const ActorOp& op = *current_op(actor, piece, task.lane);
  const std::int32_t record = note_task(actor, task);
  lane.working = false;
  lane.cause = record;
  const bool issues = !lane.issued && (gets(op.op.kind) || op.op.kind == StepKind::kPut);
  if (issues || op.op.kind == StepKind::kSend || op.op.kind == StepKind::kSignal) {
    post(actor, task.run, task.lane, op, record);
  }
  if (issues) {
    lane.issued = true;
  } else if (!receives(op.op.kind) || ++lane.segment == segments(bytes_of(op))) {
    next_op(actor, task.run, &lane);
  }
  advance(actor, task.run, task.lane);
}

}  // namespace roda::sim
