#include <memory>
#include <string>

#include "algorithms/schedule/verify/run.h"

namespace roda::schedule::verifier {

void Run::execute(Thread& thread, const Step& step) {
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
void Run::send(Thread& thread, const Step& step) {
  read(thread, step.src);
  Channel& to = channel(thread.rank, step.peer, thread.lane);
  thread.sends.push_back({step.peer, to.messages.size()});
  to.messages.push_back({static_cast<int>(thread.next), step.src, std::make_shared<const Clock>(thread.clock), false});
  thread.clock.tick(thread.rank * lanes_ + thread.lane);
}

void Run::receive(Thread& thread, const Step& step) {
  Channel& from = channel(step.peer, thread.rank, thread.lane);
  Message& message = from.messages[from.received++];
  const std::string sender = " of step " + std::to_string(message.step) + " of rank " + std::to_string(step.peer);
  if (message.range.count != step.dst.count) complain("the message" + sender + " has another length");
  message.received = true;
  thread.clock.join(*message.clock);
  message.clock.reset();
  for (int i = 0; i < step.dst.count; ++i) {
    const int chunk = step.dst.first + i;
    const int sent = message.range.first + i;
    if (length_of(schedule_of(step.peer), message.range.space, sent) !=
        length_of(schedule_of(thread.rank), step.dst.space, chunk)) {
      complain("the message" + sender + " may have another length");
    }
    Cell& source = cell(step.peer, message.range.space, sent);
    source.history.record_read(now(thread), step.peer * lanes_ + thread.lane);
    Value value = source.value;
    if (step.kind == StepKind::kRecvReduce) {
      value = expressions_.combine(read(thread, thread.rank, step.src.space, step.src.first + i), value);
    }
    write(thread, thread.rank, step.dst.space, chunk, value);
  }
}

// copy, reduce, get, get_reduce, put
void Run::store(Thread& thread, const Step& step) {
  const bool reduces = step.kind == StepKind::kReduce || step.kind == StepKind::kGetReduce;
  const int src_owner = reads_peer(step.kind) ? step.peer : thread.rank;
  const int dst_owner = step.kind == StepKind::kPut ? step.peer : thread.rank;
  for (int i = 0; i < step.dst.count; ++i) {
    const int chunk = step.dst.first + i;
    Value value = read(thread, src_owner, step.src.space, step.src.first + i);
    if (reduces) value = expressions_.combine(read(thread, dst_owner, step.dst.space, chunk), value);
    write(thread, dst_owner, step.dst.space, chunk, value);
  }
}

std::vector<Value> Run::read(Thread& thread, const Range& range) {
  std::vector<Value> values;
  for (int i = 0; i < range.count; ++i) values.push_back(read(thread, thread.rank, range.space, range.first + i));
  return values;
}

void Run::dots(Thread& thread, const Step& step) {
  const std::vector<Value> first = read(thread, step.src);
  const Value value = expressions_.products(first, read(thread, step.other));
  write(thread, thread.rank, Space::kProducts, step.dst.first, value);
}

void Run::weigh(Thread& thread, const Step& step) {
  const std::vector<Value> first = read(thread, step.src), second = read(thread, step.other);
  const Value products = read(thread, thread.rank, Space::kProducts, 0);
  for (int i = 0; i < step.dst.count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const Value value = expressions_.weigh(first[at], second[at], products);
    write(thread, thread.rank, step.dst.space, step.dst.first + i, value);
  }
}

void Run::signal(Thread& thread, const Step& step) {
  const auto clock = std::make_shared<const Clock>(thread.clock);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == thread.rank || (step.peer != kAllPeers && step.peer != peer)) continue;
    Signals& to = signals(thread.rank, peer, step.signal);
    to.sent.push_back(clock);
    to.senders.push_back(now(thread));
  }
  thread.clock.tick(thread.rank * lanes_ + thread.lane);
}

void Run::wait(Thread& thread, const Step& step) {
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == thread.rank || (step.peer != kAllPeers && step.peer != peer)) continue;
    Signals& from = signals(peer, thread.rank, step.signal);
    thread.clock.join(*from.sent[from.waited]);
    from.sent[from.waited++].reset();
  }
}

Value Run::read(Thread& thread, int owner, Space space, int chunk) {
  Cell& source = cell(owner, space, chunk);
  const auto what = [&] { return "reads " + to_text(Range{space, chunk, 1}) + " of rank " + std::to_string(owner); };
  if (const Event* other = source.history.unordered_with_read(thread.clock)) {
    complain(what() + " without being ordered after " + describe(*other));
  }
  if (source.value == kUndefined) complain(what() + ", which is undefined");
  source.history.record_read(now(thread));
  return source.value;
}

void Run::write(Thread& thread, int owner, Space space, int chunk, Value value) {
  Cell& target = cell(owner, space, chunk);
  const auto what = [&] { return "writes " + to_text(Range{space, chunk, 1}) + " of rank " + std::to_string(owner); };
  for (int lane = 0; owner != thread.rank && lane < lanes_; ++lane) {
    if (pending_over(thread_of(owner, lane), {space, chunk, 1}) == nullptr) continue;
    complain(what() + ", which that rank is still sending");
  }
  if (const Event* other = target.history.unordered_with_write(thread.clock, thread.rank * lanes_ + thread.lane)) {
    complain(what() + " without being ordered after " + describe(*other));
  }
  target.history.record_write(now(thread));
  target.value = value;
}

}  // namespace roda::schedule::verifier
