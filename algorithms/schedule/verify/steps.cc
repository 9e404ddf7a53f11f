#include <memory>
#include <string>

#include "algorithms/schedule/verify/run.h"

namespace roda::schedule::verifier {

Run::Complaint Run::execute(Thread& thread, const Step& step) {
  switch (step.kind) {
    case StepKind::kSend:
      return send(thread, step);
    case StepKind::kRecv:
    case StepKind::kRecvReduce:
      return receive(thread, step);
    case StepKind::kDots:
      return dots(thread, step);
    case StepKind::kWeigh:
      return weigh(thread, step);
    case StepKind::kSignal:
      return signal(thread, step);
    case StepKind::kWait:
      return wait(thread, step);
    default:
      return store(thread, step);
  }
}

// The chunks stay as they are until the message is received: own writes wait for that, and a peer's put is refused.
Run::Complaint Run::send(Thread& thread, const Step& step) {
  std::vector<Value> sent;
  if (Complaint complaint = read(thread, step.src, &sent)) return complaint;
  Channel& to = channel(thread.rank, step.peer, thread.lane);
  thread.sends.push_back({step.peer, to.messages.size()});
  to.messages.push_back({static_cast<int>(thread.next), step.src, std::make_shared<const Clock>(thread.clock), false});
  thread.clock.tick(thread.rank * lanes_ + thread.lane);
  return std::nullopt;
}

Run::Complaint Run::receive(Thread& thread, const Step& step) {
  Channel& from = channel(step.peer, thread.rank, thread.lane);
  Message& message = from.messages[from.received++];
  const std::string sender = " of step " + std::to_string(message.step) + " of rank " + std::to_string(step.peer);
  if (message.range.count != step.dst.count) return "the message" + sender + " has another length";
  message.received = true;
  thread.clock.join(*message.clock);
  message.clock.reset();
  for (int i = 0; i < step.dst.count; ++i) {
    const int chunk = step.dst.first + i;
    const int sent = message.range.first + i;
    if (length_of(schedule_of(step.peer), message.range.space, sent) !=
        length_of(schedule_of(thread.rank), step.dst.space, chunk)) {
      return "the message" + sender + " may have another length";
    }
    Cell& source = cell(step.peer, message.range.space, sent);
    source.history.record_read(now(thread), step.peer * lanes_ + thread.lane);
    if (step.kind == StepKind::kRecv) {
      if (Complaint complaint = write(thread, thread.rank, step.dst.space, chunk, source.value)) return complaint;
      continue;
    }
    Value own = kUndefined;
    if (Complaint complaint = read(thread, thread.rank, step.src.space, step.src.first + i, &own)) return complaint;
    if (Complaint complaint = combine_into(thread, thread.rank, step.dst.space, chunk, own, source.value)) {
      return complaint;
    }
  }
  return std::nullopt;
}

// copy, reduce, get, get_reduce, put
Run::Complaint Run::store(Thread& thread, const Step& step) {
  const bool from_peer = reads_peer(step.kind);
  const bool reduces = step.kind == StepKind::kReduce || step.kind == StepKind::kGetReduce;
  const int src_owner = from_peer ? step.peer : thread.rank;
  const int dst_owner = step.kind == StepKind::kPut ? step.peer : thread.rank;
  for (int i = 0; i < step.dst.count; ++i) {
    const int chunk = step.dst.first + i;
    Value value = kUndefined;
    if (Complaint complaint = read(thread, src_owner, step.src.space, step.src.first + i, &value)) return complaint;
    if (!reduces) {
      if (Complaint complaint = write(thread, dst_owner, step.dst.space, chunk, value)) return complaint;
      continue;
    }
    Value current = kUndefined;
    if (Complaint complaint = read(thread, dst_owner, step.dst.space, chunk, &current)) return complaint;
    if (Complaint complaint = combine_into(thread, dst_owner, step.dst.space, chunk, current, value)) return complaint;
  }
  return std::nullopt;
}

Run::Complaint Run::read(Thread& thread, const Range& range, std::vector<Value>* values) {
  for (int i = 0; i < range.count; ++i) {
    values->push_back(kUndefined);
    if (Complaint complaint = read(thread, thread.rank, range.space, range.first + i, &values->back()))
      return complaint;
  }
  return std::nullopt;
}

Run::Complaint Run::dots(Thread& thread, const Step& step) {
  std::vector<Value> first, second;
  if (Complaint complaint = read(thread, step.src, &first)) return complaint;
  if (Complaint complaint = read(thread, step.other, &second)) return complaint;
  std::string error;
  const Value value = expressions_.products(first, second, &error);
  if (value == kUndefined) return error;
  return write(thread, thread.rank, Space::kProducts, step.dst.first, value);
}

Run::Complaint Run::weigh(Thread& thread, const Step& step) {
  std::vector<Value> first, second, products;
  if (Complaint complaint = read(thread, step.src, &first)) return complaint;
  if (Complaint complaint = read(thread, step.other, &second)) return complaint;
  if (Complaint complaint = read(thread, {Space::kProducts, 0, 1}, &products)) return complaint;
  for (int i = 0; i < step.dst.count; ++i) {
    std::string error;
    const auto at = static_cast<std::size_t>(i);
    const Value value = expressions_.weigh(first[at], second[at], products.front(), &error);
    if (value == kUndefined) return error;
    if (Complaint complaint = write(thread, thread.rank, step.dst.space, step.dst.first + i, value)) return complaint;
  }
  return std::nullopt;
}

Run::Complaint Run::signal(Thread& thread, const Step& step) {
  const auto clock = std::make_shared<const Clock>(thread.clock);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == thread.rank || (step.peer != kAllPeers && step.peer != peer)) continue;
    Signals& to = signals(thread.rank, peer, step.signal);
    to.sent.push_back(clock);
    to.senders.push_back(now(thread));
  }
  thread.clock.tick(thread.rank * lanes_ + thread.lane);
  return std::nullopt;
}

Run::Complaint Run::wait(Thread& thread, const Step& step) {
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == thread.rank || (step.peer != kAllPeers && step.peer != peer)) continue;
    Signals& from = signals(peer, thread.rank, step.signal);
    thread.clock.join(*from.sent[from.waited]);
    from.sent[from.waited++].reset();
  }
  return std::nullopt;
}

Run::Complaint Run::read(Thread& thread, int owner, Space space, int chunk, Value* value) {
  Cell& source = cell(owner, space, chunk);
  const std::string name = to_text(Range{space, chunk, 1});
  if (const Event* other = source.history.unordered_with_read(thread.clock)) {
    return "reads " + name + " of rank " + std::to_string(owner) + " without being ordered after " + describe(*other);
  }
  if (source.value == kUndefined) return "reads " + name + " of rank " + std::to_string(owner) + ", which is undefined";
  source.history.record_read(now(thread));
  *value = source.value;
  return std::nullopt;
}

Run::Complaint Run::write(Thread& thread, int owner, Space space, int chunk, Value value) {
  Cell& target = cell(owner, space, chunk);
  const int number = thread.rank * lanes_ + thread.lane;
  if (owner != thread.rank) {
    if (Complaint complaint = check_no_pending_send(owner, space, chunk)) return complaint;
  }
  if (const Event* other = target.history.unordered_with_write(thread.clock, number)) {
    return "writes " + to_text(Range{space, chunk, 1}) + " of rank " + std::to_string(owner) +
           " without being ordered after " + describe(*other);
  }
  target.history.record_write(now(thread));
  target.value = value;
  return std::nullopt;
}

Run::Complaint Run::combine_into(Thread& thread, int owner, Space space, int chunk, Value current, Value operand) {
  std::string error;
  const Value sum = expressions_.combine(current, operand, &error);
  if (sum == kUndefined) return error;
  return write(thread, owner, space, chunk, sum);
}

Run::Complaint Run::check_no_pending_send(int owner, Space space, int chunk) {
  for (int lane = 0; lane < lanes_; ++lane) {
    if (pending_over(thread_of(owner, lane), {space, chunk, 1}) == nullptr) continue;
    return "writes " + to_text(Range{space, chunk, 1}) + " of rank " + std::to_string(owner) +
           ", which that rank is still sending";
  }
  return std::nullopt;
}

}  // namespace roda::schedule::verifier
