#include <memory>
#include <string>

#include "algorithms/index.h"
#include "algorithms/schedule/verify/proof.h"

namespace roda::schedule::verifier {

void Proof::execute(Thread& thread, Frame& frame, const Op& op) {
  switch (op.kind) {
    case OpKind::kSend:
      return send(thread, frame, op);
    case OpKind::kRecv:
    case OpKind::kRecvReduce:
      return receive(thread, frame, op);
    case OpKind::kCombine:
      return combine(thread, frame, op);
    case OpKind::kPut:
      return put(thread, frame, op);
    case OpKind::kDots:
      return dots(thread, frame, op);
    case OpKind::kWeigh:
      return weigh(thread, frame, op);
    case OpKind::kRound:
      return round(thread, frame, op);
    case OpKind::kSignal:
      return signal(thread, frame, op);
    case OpKind::kWait:
      return wait(thread, frame, op);
    case OpKind::kCall:
      complain("calls in the middle of a call");
  }
}

// The cells stay as they are until the message is received: own ops wait for that, and a peer's put is refused.
void Proof::send(Thread& thread, Frame& frame, const Op& op) {
  read_all(thread, frame, op.src);
  Session& session = *frame.session;
  auto& channel = session.messages[session.traffic.channel(frame.index, op.peer, thread.lane)];
  thread.sends.push_back({op.peer, channel.size()});
  const CellNumber first = op.src.count == 0 ? 0 : first_of(frame, op.src);
  channel.push_back({&op, first, frame.places.bytes(op.src), std::make_shared<const Clock>(thread.clock), false});
  thread.clock.tick(number_of(thread));
}

void Proof::receive(Thread& thread, Frame& frame, const Op& op) {
  Session& session = *frame.session;
  const std::size_t channel = session.traffic.channel(op.peer, frame.index, thread.lane);
  Message& message = session.messages[channel][session.received[channel]++];
  const int sender = session.frames[at(op.peer)]->rank;
  const auto mismatch = [&](const char* how) {
    complain("the message of step " + std::to_string(message.op->step) + " of rank " + std::to_string(sender) + how);
  };
  const std::size_t count = frame.places.bytes(op.dst);
  if (message.count != count) mismatch(" has another length");
  if (message.op->format != op.format) mismatch(" has another format");
  message.received = true;
  thread.clock.join(*message.clock);
  message.clock.reset();
  const CellNumber to = count == 0 ? 0 : first_of(frame, op.dst);
  for (std::size_t i = 0; i < count; ++i) {
    Cell& source = cell(sender, message.first + i);
    if (source.length != cell(thread.rank, to + i).length) mismatch(" may have another length");
    source.history.record_read(now(thread), sender * lanes_ + thread.lane);
    Value value = source.value;
    if (op.format != RODA_WIRE_NONE) value = expressions_->rounded(value, op.format, op.peer);
    if (op.kind == OpKind::kRecvReduce) {
      value = expressions_->combine(read(thread, thread.rank, first_of(frame, op.src) + i), value);
    }
    write(thread, thread.rank, to + i, value);
  }
}

// Sources are read tile by tile, or one after the other where they must be fetched: only the first may be what is
// written over.
void Proof::combine(Thread& thread, Frame& frame, const Op& op) {
  const std::size_t count = frame.places.bytes(op.dst);
  const CellNumber to = first_of(frame, op.dst);
  std::vector<std::pair<int, CellNumber>> sources;  // their owners
  for (const Source& source : frame.program->sources_of(op)) {
    const Frame& owner = source.peer < 0 ? frame : *frame.session->frames[at(source.peer)];
    if (owner.places.bytes(source.operand) != count) complain("source and destination may differ in length");
    if (source.peer >= 0) {
      sources.emplace_back(owner.rank, in_window(frame, source.peer, source.operand));
      continue;
    }
    const CellNumber from = first_of(frame, source.operand);
    const bool overlaps = from < to + count && to < from + count;
    if (overlaps && (from != to || !sources.empty())) complain("reads what it may have overwritten");
    sources.emplace_back(thread.rank, from);
  }
  const char* published = frame.places.published(op);
  for (std::size_t i = 0; i < count; ++i) {
    Value value = kUndefined;
    for (const auto& [owner, from] : sources) {
      check_lengths(thread.rank, to + i, owner, from + i);
      const Value read_value = read(thread, owner, from + i);
      value = value == kUndefined ? read_value : expressions_->combine(value, read_value);
    }
    write(thread, thread.rank, to + i, value);
    if (published == nullptr) continue;
    const CellNumber copy = cell_at(published) + i;
    if (pending_over(thread, frame, copy, 1) != nullptr) complain("publishes over what is still being sent");
    if (copy != to + i) write(thread, thread.rank, copy, value);
  }
}

void Proof::put(Thread& thread, Frame& frame, const Op& op) {
  const int owner = frame.session->frames[at(op.peer)]->rank;
  const CellNumber from = first_of(frame, op.src), to = in_window(frame, op.peer, op.dst);
  if (frame.places.bytes(op.src) != frame.places.bytes(op.dst)) complain("source and destination may differ in length");
  for (std::size_t i = 0; i < frame.places.bytes(op.src); ++i) {
    check_lengths(owner, to + i, thread.rank, from + i);
    write(thread, owner, to + i, read(thread, thread.rank, from + i));
  }
}

std::vector<Value> Proof::read_all(Thread& thread, const Frame& frame, const Operand& operand) {
  std::vector<Value> values;
  for (std::size_t i = 0; i < frame.places.bytes(operand) && operand.count > 0; ++i) {
    values.push_back(read(thread, thread.rank, first_of(frame, operand) + i));
  }
  return values;
}

void Proof::dots(Thread& thread, Frame& frame, const Op& op) {
  const std::vector<Value> first = read_all(thread, frame, op.src);
  write(thread, thread.rank, first_of(frame, op.dst), expressions_->products(first, read_all(thread, frame, op.other)));
}

void Proof::weigh(Thread& thread, Frame& frame, const Op& op) {
  const std::vector<Value> first = read_all(thread, frame, op.src), second = read_all(thread, frame, op.other);
  const Value products = read(thread, thread.rank, cell_at(frame.places.products));
  const CellNumber to = first_of(frame, op.dst);
  for (std::size_t i = 0; i < first.size(); ++i) {
    write(thread, thread.rank, to + i, expressions_->weigh(first[i], second[i], products));
  }
}

void Proof::round(Thread& thread, Frame& frame, const Op& op) {
  const CellNumber to = first_of(frame, op.dst);
  for (std::size_t i = 0; i < frame.places.bytes(op.dst); ++i) {
    write(thread, thread.rank, to + i,
          expressions_->rounded(read(thread, thread.rank, to + i), op.format, frame.index));
  }
}

void Proof::signal(Thread& thread, Frame& frame, const Op& op) {
  Session& session = *frame.session;
  const auto clock = std::make_shared<const Clock>(thread.clock);
  session.traffic.for_peers(frame.index, op, [&](int peer) {
    auto& sent = session.signals[session.traffic.signal(frame.index, peer, op.signal)];
    sent.push_back({clock, now(thread)});
    if (op.value != sent.size()) complain("counts to " + std::to_string(op.value) + ", not by one");
  });
  thread.clock.tick(number_of(thread));
}

void Proof::wait(Thread& thread, Frame& frame, const Op& op) {
  Session& session = *frame.session;
  session.traffic.for_peers(frame.index, op, [&](int peer) {
    const std::size_t number = session.traffic.signal(peer, frame.index, op.signal);
    if (op.value != ++session.waited[number]) complain("waits for " + std::to_string(op.value) + ", not for the next");
    ClockSnapshot& clock = session.signals[number][op.value - 1].clock;
    thread.clock.join(*clock);
    clock.reset();
  });
}

// --- around the ops -------------------------------------------------------------------------------------------------

void Proof::bring_in(Thread& thread, Frame& frame) {
  const Program& program = *frame.program;
  const Places& places = frame.places;
  if (places.bucket) {
    const std::size_t w = program.in_place ? 1 : 0;
    return copy(thread, cell_at(places.block[w]), cell_at(places.user[0]), places.map[w].prefix.back());
  }
  if (places.staged) copy(thread, frame, program.copy_in, Places::Way::kIn);
  if (!places.lies_in_output()) {
    copy(thread, frame, places.staged ? program.carry : program.contribution, Places::Way::kCarry);
  }
}

void Proof::bring_out(Thread& thread, Frame& frame) {
  const Places& places = frame.places;
  if (places.bucket) {
    return copy(thread, cell_at(places.user[1]), cell_at(places.block[1]), places.map[1].prefix.back());
  }
  if (places.staged) copy(thread, frame, frame.program->copy_out, Places::Way::kOut);
}

void Proof::copy(Thread& thread, const Frame& frame, const std::vector<ChunkRun>& runs, Places::Way way) {
  const Places& places = frame.places;
  for (const ChunkRun& run : runs) {
    const SpaceMap& map = places.map[Places::which(run.space)];
    for (std::size_t chunk = at(run.first); chunk < at(run.first + run.count); ++chunk) {
      const CellNumber to = cell_at(places.to(way, run.space, chunk));
      const CellNumber from = cell_at(places.from(way, run.space, chunk));
      copy(thread, to, from, map.prefix[chunk + 1] - map.prefix[chunk]);
    }
  }
}

void Proof::copy(Thread& thread, CellNumber to, CellNumber from, std::size_t count) {
  for (std::size_t i = 0; i < count && to != from; ++i) {
    check_lengths(thread.rank, to + i, thread.rank, from + i);
    write(thread, thread.rank, to + i, read(thread, thread.rank, from + i));
  }
}

// --- cells ----------------------------------------------------------------------------------------------------------

Cell& Proof::cell(int rank, CellNumber number) {
  std::vector<Cell>& cells = rank_of(rank).cells;
  if (number >= cells.size()) complain("touches memory of rank " + std::to_string(rank) + " that there isn't");
  return cells[number];
}

CellNumber Proof::in_window(const Frame& frame, int peer, const Operand& operand) const {
  const Frame& owner = *frame.session->frames[at(peer)];
  const std::size_t w = Places::which(operand.space);
  if (!owner.program->window[w] || cell_at(owner.places.block[w]) == kNowhere) {
    complain("reaches into a window that rank " + std::to_string(owner.rank) + " does not open");
  }
  return cell_at(owner.places.block[w]) + frame.places.window_offset(operand);
}

void Proof::check_lengths(int a_owner, CellNumber a, int b_owner, CellNumber b) {
  if (cell(a_owner, a).length != cell(b_owner, b).length) complain("source and destination may differ in length");
}

Value Proof::read(Thread& thread, int owner, CellNumber number) {
  Cell& source = cell(owner, number);
  const auto what = [&] { return "reads " + name_of(owner, source); };
  if (const Event* other = source.history.unordered_with_read(thread.clock)) {
    complain(what() + " without being ordered after " + describe(*other));
  }
  if (source.value == kUndefined) complain(what() + ", which is undefined");
  source.history.record_read(now(thread));
  return source.value;
}

void Proof::write(Thread& thread, int owner, CellNumber number, Value value) {
  Cell& target = cell(owner, number);
  const auto what = [&] { return "writes " + name_of(owner, target); };
  const Frame* frame = frame_of(owner);
  for (int lane = 0; owner != thread.rank && frame != nullptr && lane < lanes_; ++lane) {
    if (pending_over(thread_of(owner, lane), *frame, number, 1) == nullptr) continue;
    complain(what() + ", which that rank is still sending");
  }
  if (const Event* other = target.history.unordered_with_write(thread.clock, number_of(thread))) {
    complain(what() + " without being ordered after " + describe(*other));
  }
  if (target.region >= 0) take_buffer(thread, target);
  target.history.record_write(now(thread));
  target.value = value;
}

// Regions of one buffer take turns: what the others held is gone when one is written.
void Proof::take_buffer(Thread& thread, const Cell& cell) {
  Rank& rank = rank_of(thread.rank);
  const std::vector<Region>& regions = program_of(thread.rank).regions;
  const std::int32_t buffer = regions[at(cell.region)].buffer;
  const auto [holder, is_first] = rank.holders.try_emplace(buffer, cell.region);
  if (holder->second == cell.region) return;
  holder->second = cell.region;
  for (Cell& other : rank.cells) {
    if (other.region < 0 || other.region == cell.region || regions[at(other.region)].buffer != buffer) continue;
    other.value = kUndefined;
    other.history.record_write(now(thread));
  }
}

}  // namespace roda::schedule::verifier
