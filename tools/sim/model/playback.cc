#include "tools/sim/model/playback.h"

#include <algorithm>

#include "algorithms/index.h"

namespace roda::sim {
namespace {

bool later(const auto& a, const auto& b) { return a.time != b.time ? a.time > b.time : a.number > b.number; }

Time picoseconds(double microseconds) { return static_cast<Time>(microseconds * kPicosecondsPerMicrosecond + 0.5); }

}  // namespace

Playback::Playback(const Actors& actors, const Cluster& cluster, const PlaybackOptions& options, Trace* trace)
    : actors_(actors), cluster_(cluster), options_(options), trace_(trace), network_(actors.links) {
  const std::size_t stages = actors.actors.front().stages.size();
  for (std::size_t stage = 0; stage < stages; ++stage) {
    std::size_t lanes = 1;
    std::int32_t parts = 1;
    for (const Actor& actor : actors.actors) {
      lanes = std::max(lanes, actor.stages[stage].size());
      parts = std::max(parts, parts_of(actor, stage, options_));
    }
    stage_tags_.push_back({tags_, static_cast<std::int32_t>(lanes) + schedule::kMaxSignals});
    tags_ += parts * stage_tags_.back().each;
  }
  connect();
}

// All connections first: the network keeps their number, and readers refer to them.
void Playback::connect() {
  states_.resize(actors_.actors.size());
  for (std::size_t i = 0; i < actors_.actors.size(); ++i) {
    const Actor& actor = actors_.actors[i];
    states_[i].runs.resize(at(options_.in_flight));
    for (std::size_t slot = 0; slot < actor.slots.size(); ++slot) {
      const auto number = static_cast<std::int32_t>(slot);
      states_[i].out.push_back(network_.connect(actor.slots[slot].out));
      owners_.push_back({static_cast<std::int32_t>(i), number, false, -1, {}, {}, {}});
      const bool pulls = !actor.slots[slot].in.empty();
      states_[i].in.push_back(pulls ? network_.connect(actor.slots[slot].in) : -1);
      if (pulls) owners_.push_back({static_cast<std::int32_t>(i), number, true, -1, {}, {}, {}});
    }
  }
  for (std::size_t i = 0; i < actors_.actors.size(); ++i) {
    const Actor& actor = actors_.actors[i];
    for (std::size_t slot = 0; slot < actor.slots.size(); ++slot) {
      const ActorState& peer = states_[at(actor.slots[slot].actor)];
      if (at(actor.slots[slot].back) >= peer.out.size()) continue;  // it never talks to us
      owners_[at(peer.out[at(actor.slots[slot].back)])].readers.emplace_back(static_cast<std::int32_t>(i),
                                                                             static_cast<std::int32_t>(slot));
    }
  }
}

void Playback::add_event(Time time, What what, std::int32_t subject, const Message& message) {
  events_.push_back({time, numbers_++, what, subject, message});
  std::push_heap(events_.begin(), events_.end(), later<Event, Event>);
}

bool Playback::run(Time* end) {
  for (std::size_t i = 0; i < states_.size(); ++i) begin_pieces(static_cast<std::int32_t>(i), -1);
  while (step(&now_)) {
  }
  *end = end_;
  return std::ranges::all_of(states_, [&](const auto& state) { return state.ended == options_.pieces; });
}

// One instant, or another round of the same one.
bool Playback::step(Time* now) {
  for (const std::int32_t actor : dirty_) dispatch(actor);
  dirty_.clear();
  network_.settle(*now);
  const Time event = events_.empty() ? Network::kNever : events_.front().time;
  const Time next = std::min(event, network_.next());
  if (next == Network::kNever) return false;
  *now = next;
  batch_.clear();
  while (!events_.empty() && events_.front().time == next) {
    batch_.push_back(events_.front());
    std::pop_heap(events_.begin(), events_.end(), later<Event, Event>);
    events_.pop_back();
  }
  network_.finish(next, &left_);
  for (const Departure& departure : left_) handle_departure(departure);
  for (const Event& some : batch_) handle(some);
  return true;
}

void Playback::handle(const Event& event) {
  switch (event.what) {
    case What::kProcessor: {
      ActorState& state = states_[at(event.subject)];
      const Task task = state.current;
      state.busy = false;
      wake(event.subject);
      complete(event.subject, task);
      return;
    }
    case What::kArrival:
      return handle_arrival(event.subject, event.message);
    case What::kRequest:
      network_.send(event.subject, event.message);
      return;
  }
}

void Playback::handle_departure(const Departure& departure) {
  Owner& owner = owners_[at(departure.connection)];
  const Slot& slot = actors_.actors[at(owner.actor)].slots[at(owner.slot)];
  const Time arrival = now_ + picoseconds(cluster_.levels[at(slot.level)].latency_us);
  Message message = departure.message;
  const std::int32_t piece = message.tag / tags_;
  const Place place = place_of(message.tag % tags_);
  if (trace_ != nullptr) {
    // The message waited for the one before it, unless it began when it was handed over.
    const Time handed =
        (owner.pulls ? request_time(slot) : 0) + (message.cause < 0 ? 0 : trace_->records[at(message.cause)].end);
    const bool queued = departure.began > handed && owner.last_wire >= 0;
    const std::int32_t cause = queued ? owner.last_wire : message.cause;
    message.cause = trace_->add({true, owner.actor, piece, static_cast<std::int32_t>(place.stage), StepKind::kSend,
                                 owner.slot, departure.began, arrival, cause});
    owner.last_wire = message.cause;
  }
  add_event(arrival, What::kArrival, departure.connection, message);
  if (owner.pulls || place.lane < 0) return;
  const std::int32_t run = piece % options_.in_flight;
  const std::int32_t lane = index_of(owner.actor, place);
  LaneState& state = states_[at(owner.actor)].runs[at(run)].lanes[at(lane)];
  const auto send =
      std::ranges::find_if(state.sends, [&](const PendingSend& pending) { return pending.slot == owner.slot; });
  if (send == state.sends.end() || --send->segments > 0) return;
  state.sends.erase(send);
  if (state.working) return;
  const Cost* op = current_op(owner.actor, states_[at(owner.actor)].runs[at(run)], lane);
  const bool waits_for_it = op == nullptr || op->blocked_by != 0 || op->kind == StepKind::kPut;
  if (waits_for_it) state.cause = message.cause;
  advance(owner.actor, run, lane);
}

void Playback::handle_arrival(std::int32_t connection, const Message& message) {
  Owner& owner = owners_[at(connection)];
  const std::int32_t piece = message.tag / tags_;
  const std::int32_t run = piece % options_.in_flight;
  const Place place = place_of(message.tag % tags_);
  if (owner.pulls) {
    const std::int32_t lane = index_of(owner.actor, place);
    LaneState& state = states_[at(owner.actor)].runs[at(run)].lanes[at(lane)];
    const auto known =
        std::ranges::find_if(state.pulled, [&](const auto& pulled) { return pulled.first == owner.slot; });
    if (known != state.pulled.end()) {
      ++known->second;
    } else {
      state.pulled.emplace_back(owner.slot, 1);
    }
    if (!state.working) state.cause = message.cause;
    advance(owner.actor, run, lane);
    return;
  }
  if (owner.arrived.size() <= at(message.tag)) owner.arrived.resize(at((piece + 1) * tags_));
  ++owner.arrived[at(message.tag)];
  if (trace_ != nullptr) owner.causes[message.tag].push_back(message.cause);
  for (const auto& [actor, slot] : owner.readers) {
    const PieceRun& reader = states_[at(actor)].runs[at(run)];
    const auto is_there = [&] { return reader.piece == piece && reader.stage == place.stage; };
    if (place.lane >= 0) {
      if (is_there() && place.lane < lanes_of(actor, place.stage)) advance(actor, run, index_of(actor, place));
      continue;
    }
    for (std::int32_t lane = 0; is_there() && lane < lanes_of(actor, place.stage); ++lane) {
      advance(actor, run, index_of(actor, {place.stage, place.part, lane}));
    }
  }
}

void Playback::wake(std::int32_t actor) {
  if (states_[at(actor)].dirty) return;
  states_[at(actor)].dirty = true;
  dirty_.push_back(actor);
}

void Playback::enqueue_task(std::int32_t actor, std::int32_t run, std::int32_t lane, Time duration) {
  PieceRun& piece = states_[at(actor)].runs[at(run)];
  LaneState& state = piece.lanes[at(lane)];
  state.working = true;
  const std::int64_t part = static_cast<std::int64_t>(piece.piece) * tags_ + state.part;
  const std::int64_t key = part * 64 + lane % lanes_of(actor, piece.stage);
  states_[at(actor)].ready.push_back({key, run, lane, now_, duration, state.cause});
  wake(actor);
}

void Playback::dispatch(std::int32_t actor) {
  ActorState& state = states_[at(actor)];
  state.dirty = false;
  if (state.busy || state.ready.empty()) return;
  const auto first = std::ranges::min_element(state.ready, [](const Task& a, const Task& b) { return a.key < b.key; });
  state.current = *first;
  state.ready.erase(first);
  state.busy = true;
  state.began = now_;
  add_event(now_ + state.current.duration, What::kProcessor, actor);
}

std::int32_t Playback::note_task(std::int32_t actor, const Task& task) {
  if (trace_ == nullptr) return -1;
  ActorState& state = states_[at(actor)];
  const PieceRun& run = state.runs[at(task.run)];
  const Cost* op = current_op(actor, run, task.lane);
  const bool waited = state.began > task.ready && state.last_record >= 0;
  state.last_record = trace_->add({false, actor, run.piece, static_cast<std::int32_t>(run.stage), op->kind, op->peer,
                                   state.began, now_, waited ? state.last_record : task.cause});
  return state.last_record;
}

std::string Playback::stuck() const {
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].ended == options_.pieces) continue;
    return "rank " + std::to_string(actors_.actors[i].rank) + " waits for ever in piece " +
           std::to_string(states_[i].ended);
  }
  return "";
}

}  // namespace roda::sim
