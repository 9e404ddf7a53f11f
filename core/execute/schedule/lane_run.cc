#include "core/execute/schedule/lane_run.h"

#include "algorithms/schedule/format.h"
#include "plugins/base/copy.h"
#include "plugins/base/invariant.h"
#include "plugins/devices/cpu/cpu_device.h"

namespace roda::execute {

LaneRun::LaneRun(const RunView& view, const LaneProgram& lane, std::uint32_t index)
    : view_(view), lane_(lane), index_(index) {
  sends_.reserve(lane.sends);
  mapped_.reserve(view.program->most_sources);
}

void LaneRun::restart() {
  next_ = 0;
  state_ = OpState();
  encoded_end_ = 0;
}

Status LaneRun::advance(Effort* effort) {
  while (next_ < lane_.ops.size()) {
    const Op& op = lane_.ops[next_];
    if (!state_.entered) RODA_RETURN_IF_ERROR(enter(op));
    if (!state_.entered) return {};
    bool done = false;
    RODA_RETURN_IF_ERROR(step(op, effort, &done));
    if (!done) return {};
    state_ = OpState();
    ++next_;
    ++effort->moves;
  }
  if (sends_.empty()) return {};
  bool clear = true;
  const std::size_t before = sends_.size();
  RODA_RETURN_IF_ERROR(reap_sends(nullptr, nullptr, &clear));
  effort->moves += before - sends_.size();
  return {};
}

// An op begins when no send of the lane still reads what it is going to write.
Status LaneRun::enter(const Op& op) {
  const bool writes = op.kind == OpKind::kRecv || op.kind == OpKind::kRecvReduce || op.kind == OpKind::kCombine ||
                      op.kind == OpKind::kDots || op.kind == OpKind::kWeigh || op.kind == OpKind::kRound;
  if (writes && !sends_.empty()) {
    const char* begin = view_.address(op.dst);
    bool clear = true;
    RODA_RETURN_IF_ERROR(reap_sends(begin, begin + view_.bytes(op.dst), &clear));
    if (!clear) return {};
  }
  if (op.kind == OpKind::kCombine) map_sources(op);
  if (op.kind == OpKind::kPut) state_.mapped = view_.group->map(op.peer, view_.window(op.dst)) != nullptr;
  state_.entered = true;
  return {};
}

Status LaneRun::step(const Op& op, Effort* effort, bool* done) {
  switch (op.kind) {
    case OpKind::kSend:
      return op.format == RODA_WIRE_NONE ? send(op, effort, done) : send_encoded(op, effort, done);
    case OpKind::kRecv:
    case OpKind::kRecvReduce:
      return recv(op, effort, done);
    case OpKind::kCombine:
      if (view_.queue != nullptr) return combine_on_device(op, done);
      return state_.mapped ? combine_mapped(op, effort, done) : combine_by_gets(op, effort, done);
    case OpKind::kPut:
      return put(op, effort, done);
    case OpKind::kSignal:
    case OpKind::kWait:
      return signal_or_wait(op, effort, done);
    case OpKind::kDots:
    case OpKind::kWeigh:
      return combine_vectors(op, effort, done);
    case OpKind::kRound:
      return round(op, effort, done);
    case OpKind::kCall:  // of compositions
      break;
  }
  return {};
}

// --- messages -------------------------------------------------------------------------------------------------------

Tag LaneRun::tag() const {
  Tag tag = view_.tag;
  tag.lane = index_;
  return tag;
}

// Messages longer than a segment go in parts under one tag. A range of no chunks is a message without data; chunks
// that happen to be empty are not sent at all, as both sides know.
Status LaneRun::send(const Op& op, Effort* effort, bool* done) {
  const std::size_t total = view_.bytes(op.src);
  const char* data = view_.address(op.src);
  while (!all_posted(op.src, total)) {
    const std::size_t bytes = std::min(view_.options->segment_bytes, total - state_.posted);
    roda_request* request = nullptr;
    const char* begin = data == nullptr ? nullptr : data + state_.posted;
    const int code = view_.group->send(op.peer, tag().packed(), begin, bytes, view_.memory(op.src), &request);
    if (code == RODA_AGAIN) return {};
    RODA_RETURN_IF_ERROR(view_.group->error(code));
    if (request != nullptr) sends_.push_back({request, begin, begin + bytes});
    state_.posted += bytes;
    RODA_INVARIANT(state_.posted <= total, "a message is no longer than its part of the tensor");
    state_.empty_sent = true;
    ++effort->moves;
  }
  *done = true;
  return {};
}

// In whole blocks, so that where one begins does not depend on how the data are cut into messages.
std::size_t LaneRun::segment(const Op& op) const {
  const std::size_t segment = view_.options->segment_bytes;
  if (op.format == RODA_WIRE_NONE) return segment;
  constexpr std::size_t grain = schedule::kFormatGrain * sizeof(float);
  return std::max(segment / grain, std::size_t{1}) * grain;
}

// The messages of a slice lie behind one another: what each takes is fixed by the program and the slice.
Status LaneRun::begin_message(const Op& op, const Operand& operand) {
  if (encoded_end_ == 0) {
    std::size_t all = 0;
    for (const Op& other : lane_.ops) {
      const bool encodes = other.kind == OpKind::kSend || other.kind == OpKind::kRound;
      const Operand& data = other.kind == OpKind::kSend ? other.src : other.dst;
      if (encodes && other.format != RODA_WIRE_NONE) all += align_up(wire_bytes(other, view_.bytes(data)));
    }
    RODA_RETURN_IF_ERROR(encoded_.reserve(nullptr, all));
  }
  state_.message = encoded_end_;
  encoded_end_ += align_up(wire_bytes(op, view_.bytes(operand)));
  return {};
}

// Drawn anew in every step, alike by the same rank of every group: groups that sum the same come to the same.
char* LaneRun::encode(const Op& op, const Operand& operand) {
  const std::uint64_t draw = (std::uint64_t{op.step} << 16) + static_cast<std::uint64_t>(view_.program->rank) + 1;
  const std::size_t bytes = std::min(segment(op), view_.bytes(operand) - state_.done);
  const auto* values = reinterpret_cast<const float*>(view_.address(operand) + state_.done);
  const std::size_t first =
      view_.wire.begin + (view_.chunks(operand).user[index(operand.first)] + state_.done) / sizeof(float);
  char* message = encoded_.data() + state_.message + wire_bytes(op, state_.done);
  execute::encode(op.format, message, values, bytes / sizeof(float), first, view_.wire.tensors, draw, op.lost_of);
  state_.done += bytes;
  return message;
}

Status LaneRun::round(const Op& op, Effort* effort, bool* done) {
  const std::size_t total = view_.bytes(op.dst);
  while (state_.done < total) {
    if (effort->budget == 0) return {};
    if (state_.done == 0) RODA_RETURN_IF_ERROR(begin_message(op, op.dst));
    const std::size_t before = state_.done;
    auto* values = reinterpret_cast<float*>(view_.address(op.dst) + before);
    const char* message = encode(op, op.dst);
    cpu::decode(op.format, values, nullptr, message, (state_.done - before) / sizeof(float));
    effort->spend(state_.done - before);
  }
  rounded_message_ = state_.message;
  *done = true;
  return {};
}

// Whether the op under way sends what a kRound has encoded just before, and others may have sent since.
bool LaneRun::is_encoded(const Operand& sent) const {
  std::size_t before = next_;
  while (before > 0 && lane_.ops[before - 1].kind == OpKind::kSend) --before;
  return before > 0 && lane_.ops[before - 1].kind == OpKind::kRound && lane_.ops[before - 1].dst == sent;
}

// What is sent lies in memory of its own: the data may change before it has left.
Status LaneRun::send_encoded(const Op& op, Effort* effort, bool* done) {
  const std::size_t total = view_.bytes(op.src);
  if (state_.done == 0 && is_encoded(op.src)) {
    state_.message = rounded_message_;
    state_.done = total;
  }
  while (state_.posted < total) {
    if (state_.done == 0) RODA_RETURN_IF_ERROR(begin_message(op, op.src));
    const std::size_t bytes = std::min(segment(op), total - state_.posted);
    if (state_.done == state_.posted) encode(op, op.src);
    roda_request* request = nullptr;
    const char* message = encoded_.data() + state_.message + wire_bytes(op, state_.posted);
    const int code = view_.group->send(op.peer, tag().packed(), message, wire_bytes(op, bytes), nullptr, &request);
    if (code == RODA_AGAIN) return {};
    RODA_RETURN_IF_ERROR(view_.group->error(code));
    if (request != nullptr) sends_.push_back({request, nullptr, nullptr});
    state_.posted += bytes;
    effort->spend(bytes);
  }
  *done = true;
  return {};
}

// Drops the sends that have ended; *clear says that none of the others overlaps [begin, end).
Status LaneRun::reap_sends(const char* begin, const char* end, bool* clear) {
  *clear = true;
  std::size_t kept = 0;
  Status failed;
  for (std::size_t i = 0; i < sends_.size(); ++i) {
    const Send& pending = sends_[i];
    const int code = failed.ok() ? view_.group->test_request(pending.request) : int{RODA_IN_PROGRESS};
    if (code < 0) failed = view_.group->error(code);
    if (code != RODA_IN_PROGRESS) continue;
    if (pending.begin < end && begin < pending.end) *clear = false;
    sends_[kept++] = pending;
  }
  sends_.resize(kept);
  return failed;
}

// Starts receives, in order, until `most` are pending.
Status LaneRun::post_recv(const Op& op, std::uint32_t most, bool bounced) {
  const std::size_t segment = this->segment(op);
  const std::size_t total = view_.bytes(op.dst);
  char* dst = view_.address(op.dst);
  while (count_ < most && !all_posted(op.dst, total)) {
    bool is_free = true;
    if (bounced) RODA_RETURN_IF_ERROR(is_part_free(state_.posted / segment, &is_free));
    if (!is_free) return {};
    const std::size_t bytes = std::min(segment, total - state_.posted);
    char* data = bounced ? bounce(state_.posted, segment) : dst == nullptr ? nullptr : dst + state_.posted;
    const roda_memory* memory = bounced ? bounce_.memory() : view_.memory(op.dst);
    roda_request* request = nullptr;
    const int code = view_.group->recv(op.peer, tag().packed(), data, wire_bytes(op, bytes), memory, &request);
    if (code == RODA_AGAIN) return {};
    RODA_RETURN_IF_ERROR(view_.group->error(code));
    push(request, bytes);
    state_.empty_sent = true;
  }
  return {};
}

Status LaneRun::recv(const Op& op, Effort* effort, bool* done) {
  const bool is_worked_on = op.kind == OpKind::kRecvReduce || op.format != RODA_WIRE_NONE;
  if (is_worked_on) RODA_RETURN_IF_ERROR(reserve_bounce(segment(op)));
  while (true) {
    RODA_RETURN_IF_ERROR(post_recv(op, is_worked_on ? bounce_parts() : kMostPending, is_worked_on));
    if (count_ == 0) {
      *done = all_posted(op.dst, view_.bytes(op.dst));
      return *done ? is_device_idle(done) : Status();
    }
    std::optional<Pending> finished;
    if (!is_worked_on || effort->budget > 0) RODA_RETURN_IF_ERROR(reap(effort, &finished));
    if (!finished) return {};
    if (is_worked_on && finished->bytes > 0) RODA_RETURN_IF_ERROR(add_message(op, *finished));
  }
}

Status LaneRun::add_message(const Op& op, const Pending& message) {
  char* dst = view_.address(op.dst) + message.offset;
  const char* received = bounce(message.offset, segment(op));
  const char* src = op.src.count == 0 ? nullptr : view_.address(op.src) + message.offset;
  if (op.format != RODA_WIRE_NONE) {
    cpu::decode(op.format, reinterpret_cast<float*>(dst), reinterpret_cast<const float*>(src), received,
                message.bytes / sizeof(float));
    return {};
  }
  if (op.dst.space != schedule::Space::kProducts) {
    RODA_RETURN_IF_ERROR(reduce(dst, src, received, message.bytes));
    part_work_[message.offset / view_.options->segment_bytes % kMostPending] = device_work_;
    return {};
  }
  // Adasum's. Both sides of an exchange add the same two numbers, so all ranks come to the same sums.
  const roda_host& host = view_.group->context().host();
  host.reduce(host.self, dst, src, received, message.bytes / sizeof(double), RODA_FLOAT64, RODA_SUM);
  return {};
}

void LaneRun::push(roda_request* request, std::size_t bytes) {
  RODA_INVARIANT(count_ < kMostPending, "a lane posts no more receives than it keeps");
  pending_[(head_ + count_++) % kMostPending] = {request, state_.posted, bytes};
  state_.posted += bytes;
}

// Takes the oldest pending request if it has ended.
Status LaneRun::reap(Effort* effort, std::optional<Pending>* finished) {
  if (count_ == 0) return {};
  const Pending& oldest = pending_[head_];
  const int code = oldest.request == nullptr ? int{RODA_OK} : view_.group->test_request(oldest.request);
  if (code == RODA_IN_PROGRESS) return {};
  *finished = oldest;
  head_ = (head_ + 1) % kMostPending;
  --count_;
  effort->spend(oldest.bytes);
  return view_.group->error(code);
}

// --- signals --------------------------------------------------------------------------------------------------------

// Each rank begins with its right neighbour, so that no rank is everybody's first.
int LaneRun::next_peer(const Op& op) const {
  if (op.peer != schedule::kAllPeers) return op.peer;
  const int peer = view_.program->rank + 1 + state_.peer, size = view_.program->size;
  return peer < size ? peer : peer - size;
}

Status LaneRun::signal_or_wait(const Op& op, Effort* effort, bool* done) {
  TransportGroup& group = *view_.group;
  const std::uint32_t signal = group.signal_index(view_.block_index, op.signal);
  const std::uint64_t value = view_.sequence << 16 | op.value;
  const int peers = op.peer == schedule::kAllPeers ? view_.program->size - 1 : 1;
  const bool waits = op.kind == OpKind::kWait;
  for (; state_.peer < peers; ++state_.peer, ++effort->moves) {
    const int peer = next_peer(op);
    if (waits && group.signal_value(peer, signal) < value) return {};
    if (waits) continue;
    const int code = group.signal(peer, signal, value);
    if (code == RODA_AGAIN) return {};
    RODA_RETURN_IF_ERROR(group.error(code));
  }
  *done = true;
  return {};
}

// --- data -----------------------------------------------------------------------------------------------------------

Status LaneRun::no_reduction(int code) const {
  return Status(
      code, std::string(roda_reduce_op_name(view_.op)) + " of " + roda_dtype_name(view_.dtype) + " is not supported");
}

Status LaneRun::reduce(char* dst, const char* a, const char* b, std::size_t bytes) {
  if (view_.queue != nullptr) {
    RODA_RETURN_IF_ERROR(reduce_on_device(dst, a, b, bytes));
    return DeviceEvent::record(*view_.queue, &device_work_);
  }
  const roda_host& host = view_.group->context().host();
  const int code = host.reduce(host.self, dst, a, b, bytes / view_.element, view_.dtype, view_.op);
  return code == RODA_OK ? Status() : no_reduction(code);
}

void LaneRun::copy(char* dst, const char* src, std::size_t bytes, bool far) const {
  if (dst == src) return;
  if (far) return cpu::copy_streaming(dst, src, bytes);
  const roda_host& host = view_.group->context().host();
  host.copy(host.self, dst, src, bytes);
}

Status LaneRun::reserve_bounce(std::size_t part_bytes) {
  RODA_RETURN_IF_ERROR(bounce_.reserve(view_.queue, bounce_parts() * align_up(part_bytes)));
  bounce_.register_with(*view_.group);
  return {};
}

// On a device the reduction of a message is put on the stream behind those before it, whether they are over or not;
// the next message must not come where one still reads.
Status LaneRun::is_part_free(std::size_t message, bool* is_free) {
  std::shared_ptr<DeviceEvent>& work = part_work_[message % kMostPending];
  if (work == nullptr) return {};
  RODA_RETURN_IF_ERROR(work->test(is_free));
  if (*is_free) work.reset();
  return {};
}

// Copies and reductions on a device are put on the stream, and the lane goes on with its next step when they are over:
// what it sends then was made by them.
Status LaneRun::is_device_idle(bool* idle) {
  if (device_work_ == nullptr) return {};
  RODA_RETURN_IF_ERROR(device_work_->test(idle));
  if (*idle) device_work_.reset();
  return {};
}

Status LaneRun::reduce_on_device(char* dst, const char* a, const char* b, std::size_t bytes) {
  const DeviceQueue& queue = *view_.queue;
  return invoke(queue.device->reduce, dst, a, b, bytes / view_.element, view_.dtype, view_.op, queue.stream);
}

// Schedules of messages combine what is local.
Status LaneRun::combine_on_device(const Op& op, bool* done) {
  const std::size_t total = view_.bytes(op.dst);
  char* dst = view_.address(op.dst);
  if (total != 0 && state_.done == 0) {
    if (op.sources == 1) RODA_RETURN_IF_ERROR(view_.queue->copy(dst, local(0), total));
    for (std::uint32_t s = 1; s < op.sources; ++s) {
      RODA_RETURN_IF_ERROR(reduce_on_device(dst, s == 1 ? local(0) : dst, local(s), total));
    }
    RODA_RETURN_IF_ERROR(DeviceEvent::record(*view_.queue, &device_work_));
    state_.done = total;
  }
  *done = true;
  return is_device_idle(done);
}

bool LaneRun::release() {
  bool is_idle = true;
  // A device that has failed runs nothing any more.
  if (is_device_idle(&is_idle).ok() && !is_idle) return false;
  for (; count_ > 0; --count_) {
    const Pending& oldest = pending_[head_];
    if (oldest.request != nullptr && view_.group->test_request(oldest.request) == RODA_IN_PROGRESS) return false;
    head_ = (head_ + 1) % kMostPending;
  }
  while (!sends_.empty()) {
    if (view_.group->test_request(sends_.back().request) == RODA_IN_PROGRESS) return false;
    sends_.pop_back();
  }
  next_ = lane_.ops.size();
  return true;
}

std::string LaneRun::describe() const {
  if (next_ == lane_.ops.size()) return sends_.empty() ? "done" : "waits for its sends to leave";
  static const char* const kinds[] = {"send to", "recv from", "recv from", "read from", "put to", "signal", "wait for"};
  const Op& op = lane_.ops[next_];
  const std::string step = ", step " + std::to_string(op.step + 1);
  if (op.kind >= OpKind::kDots) return "computes" + step;
  return std::string(kinds[static_cast<std::size_t>(op.kind)]) + " rank " +
         std::to_string(view_.group->world_rank(next_peer(op))) + step;
}

}  // namespace roda::execute
