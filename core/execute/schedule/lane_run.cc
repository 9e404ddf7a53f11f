#include "core/execute/schedule/lane_run.h"

namespace roda::execute {

using schedule::Space;

LaneRun::LaneRun(const RunView& view, const LaneProgram& lane, std::uint32_t index)
    : view_(view), lane_(lane), index_(index) {
  sends_.reserve(lane.sends);
  mapped_.reserve(view.program->most_sources);
}

void LaneRun::restart() {
  next_ = 0;
  state_ = OpState();
}

Status LaneRun::advance(Effort* effort) {
  while (next_ < lane_.ops.size()) {
    const Op& op = lane_.ops[next_];
    Turn turn = Turn::kDone;
    if (!state_.entered) RODA_RETURN_IF_ERROR(enter(op, &turn));
    if (turn == Turn::kBlocked) return {};
    RODA_RETURN_IF_ERROR(step(op, effort, &turn));
    if (turn == Turn::kBlocked) return {};
    state_ = OpState();
    ++next_;
    ++effort->moves;
  }
  bool clear = true;
  if (!sends_.empty()) {
    const std::size_t before = sends_.size();
    RODA_RETURN_IF_ERROR(reap_sends(nullptr, nullptr, &clear));
    effort->moves += before - sends_.size();
  }
  return {};
}

// An op begins when no send of the lane still reads what it is going to write.
Status LaneRun::enter(const Op& op, Turn* turn) {
  const bool writes = op.kind == OpKind::kRecv || op.kind == OpKind::kRecvReduce || op.kind == OpKind::kCombine ||
                      op.kind == OpKind::kDots || op.kind == OpKind::kWeigh;
  if (writes && !sends_.empty()) {
    const char* begin = view_.address(op.dst);
    bool clear = true;
    RODA_RETURN_IF_ERROR(reap_sends(begin, begin + view_.bytes(op.dst), &clear));
    if (!clear) {
      *turn = Turn::kBlocked;
      return {};
    }
  }
  if (op.kind == OpKind::kCombine) map_sources(op);
  if (op.kind == OpKind::kPut) state_.mapped = view_.group->map(op.peer, view_.window(op.dst)) != nullptr;
  state_.entered = true;
  return {};
}

Status LaneRun::step(const Op& op, Effort* effort, Turn* turn) {
  switch (op.kind) {
    case OpKind::kSend:
      return send(op, effort, turn);
    case OpKind::kRecv:
      return recv(op, effort, turn);
    case OpKind::kRecvReduce:
      return recv_reduce(op, effort, turn);
    case OpKind::kCombine:
      if (view_.queue != nullptr) return combine_on_device(op, turn);
      return state_.mapped ? combine_mapped(op, effort, turn) : combine_by_gets(op, effort, turn);
    case OpKind::kPut:
      return put(op, effort, turn);
    case OpKind::kSignal:
      return signal(op, effort, turn);
    case OpKind::kWait:
      return wait(op, effort, turn);
    case OpKind::kDots:
    case OpKind::kWeigh:
      return combine_vectors(op, effort, turn);
  }
  return {};
}

void LaneRun::push(roda_request* request, std::size_t offset, std::size_t bytes) {
  pending_[(head_ + count_++) % kMostPending] = {request, offset, bytes};
}

// Takes the oldest pending request if it has ended.
Status LaneRun::reap(Effort* effort, Pending* finished, bool* got) {
  *got = false;
  if (count_ == 0) return {};
  Pending& oldest = pending_[head_];
  const int code = oldest.request == nullptr ? int{RODA_OK} : view_.group->test_request(oldest.request);
  if (code == RODA_IN_PROGRESS) return {};
  *finished = oldest;
  *got = true;
  head_ = (head_ + 1) % kMostPending;
  --count_;
  effort->spend(finished->bytes);
  return view_.group->error(code);
}

Status LaneRun::signal(const Op& op, Effort* effort, Turn* turn) {
  const std::uint32_t index = view_.group->signal_index(view_.block_index, op.signal);
  const std::uint64_t value = view_.sequence << 16 | op.value;
  const int size = view_.program->size;
  const int last = op.peer == schedule::kAllPeers ? size - 1 : 1;
  // Each rank begins with its right neighbour, so that no rank is everybody's first.
  for (; state_.peer < last; ++state_.peer) {
    const int peer = op.peer == schedule::kAllPeers ? (view_.program->rank + 1 + state_.peer) % size : op.peer;
    const int code = view_.group->signal(peer, index, value);
    if (code == RODA_AGAIN) {
      *turn = Turn::kBlocked;
      return {};
    }
    RODA_RETURN_IF_ERROR(view_.group->error(code));
    ++effort->moves;
  }
  return {};
}

Status LaneRun::wait(const Op& op, Effort* effort, Turn* turn) {
  const std::uint32_t index = view_.group->signal_index(view_.block_index, op.signal);
  const std::uint64_t value = view_.sequence << 16 | op.value;
  const int size = view_.program->size;
  const int last = op.peer == schedule::kAllPeers ? size - 1 : 1;
  for (; state_.peer < last; ++state_.peer) {
    const int peer = op.peer == schedule::kAllPeers ? (view_.program->rank + 1 + state_.peer) % size : op.peer;
    if (view_.group->signal_value(peer, index) < value) {
      *turn = Turn::kBlocked;
      return {};
    }
    ++effort->moves;
  }
  return {};
}

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

void LaneRun::copy(char* dst, const char* src, std::size_t bytes) const {
  if (dst == src) return;
  const roda_host& host = view_.group->context().host();
  host.copy(host.self, dst, src, bytes);
}

char* LaneRun::bounce(std::uint32_t half, std::size_t half_bytes) {
  const std::size_t stride = align_up(half_bytes);
  char* base = view_.queue == nullptr ? bounce_.reserve(2 * stride) : bounce_on_device_.data();
  return base + half * stride;
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
  if (op.kind == OpKind::kDots || op.kind == OpKind::kWeigh) return "computes, step " + std::to_string(op.step + 1);
  std::string text = kinds[static_cast<std::size_t>(op.kind)];
  int peer = op.peer;
  if (peer == schedule::kAllPeers && state_.peer < view_.program->size - 1) {
    peer = (view_.program->rank + 1 + state_.peer) % view_.program->size;
  }
  text += " rank " + std::to_string(view_.group->world_rank(peer));
  return text + ", step " + std::to_string(op.step + 1);
}

}  // namespace roda::execute
