#include "core/execute/lane_run.h"

#include <algorithm>

#include "plugins/devices/cpu/cpu_device.h"

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
  const bool writes = op.kind == OpKind::kRecv || op.kind == OpKind::kRecvReduce || op.kind == OpKind::kCombine;
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
      return state_.mapped ? combine_mapped(op, effort, turn) : combine_by_gets(op, effort, turn);
    case OpKind::kPut:
      return put(op, effort, turn);
    case OpKind::kSignal:
      return signal(op, effort, turn);
    case OpKind::kWait:
      return wait(op, effort, turn);
  }
  return {};
}

// Messages longer than a segment go in parts under one tag. A range of no chunks is a message without data; chunks
// that happen to be empty are not sent at all, as both sides know.
Status LaneRun::send(const Op& op, Effort* effort, Turn* turn) {
  const std::size_t total = view_.bytes(op.src);
  const bool empty = op.src.count == 0;
  const char* data = view_.address(op.src);
  Tag tag = view_.tag;
  tag.lane = index_;
  while (state_.posted < total || (empty && !state_.empty_sent)) {
    const std::size_t bytes = std::min(view_.options->segment_bytes, total - state_.posted);
    roda_request* request = nullptr;
    const char* begin = data == nullptr ? nullptr : data + state_.posted;
    const int code = view_.group->send(op.peer, tag.packed(), begin, bytes, view_.memory(op.src), &request);
    if (code == RODA_AGAIN) {
      *turn = Turn::kBlocked;
      return {};
    }
    RODA_RETURN_IF_ERROR(view_.group->error(code));
    if (request != nullptr) sends_.push_back({request, begin, begin + bytes});
    state_.posted += bytes;
    state_.empty_sent = true;
    ++effort->moves;
  }
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

// Starts receives, in order, until `most` are pending.
Status LaneRun::post_recv(const Op& op, std::uint32_t most, bool bounced) {
  const std::size_t segment = view_.options->segment_bytes;
  const std::size_t total = view_.bytes(op.dst);
  const bool empty = op.dst.count == 0;
  Tag tag = view_.tag;
  tag.lane = index_;
  while (count_ < most && (state_.posted < total || (empty && !state_.empty_sent))) {
    const std::size_t bytes = std::min(segment, total - state_.posted);
    const auto half = static_cast<std::uint32_t>(state_.posted / segment % 2);
    char* data = bounced ? bounce(half, segment) : view_.address(op.dst);
    if (!bounced && data != nullptr) data += state_.posted;
    roda_request* request = nullptr;
    const int code =
        view_.group->recv(op.peer, tag.packed(), data, bytes, bounced ? nullptr : view_.memory(op.dst), &request);
    if (code == RODA_AGAIN) return {};
    RODA_RETURN_IF_ERROR(view_.group->error(code));
    push(request, state_.posted, bytes);
    state_.posted += bytes;
    state_.empty_sent = true;
  }
  return {};
}

Status LaneRun::recv(const Op& op, Effort* effort, Turn* turn) {
  const std::size_t total = view_.bytes(op.dst);
  while (true) {
    RODA_RETURN_IF_ERROR(post_recv(op, kMostPending, false));
    const bool all_posted = state_.posted == total && (op.dst.count > 0 || state_.empty_sent);
    if (count_ == 0) {
      *turn = all_posted ? Turn::kDone : Turn::kBlocked;
      return {};
    }
    Pending finished;
    bool got = false;
    RODA_RETURN_IF_ERROR(reap(effort, &finished, &got));
    if (!got) {
      *turn = Turn::kBlocked;
      return {};
    }
  }
}

// Two halves of the bounce buffer: one is reduced while the next message arrives in the other.
Status LaneRun::recv_reduce(const Op& op, Effort* effort, Turn* turn) {
  const std::size_t segment = view_.options->segment_bytes;
  const std::size_t total = view_.bytes(op.dst);
  char* dst = view_.address(op.dst);
  const char* src = view_.address(op.src);
  while (true) {
    RODA_RETURN_IF_ERROR(post_recv(op, 2, true));
    if (count_ == 0) {
      const bool all_posted = state_.posted == total && (op.dst.count > 0 || state_.empty_sent);
      *turn = all_posted ? Turn::kDone : Turn::kBlocked;
      return {};
    }
    Pending finished;
    bool got = false;
    if (effort->budget > 0) RODA_RETURN_IF_ERROR(reap(effort, &finished, &got));
    if (!got) {
      *turn = Turn::kBlocked;
      return {};
    }
    if (finished.bytes == 0) continue;
    const char* message = bounce(static_cast<std::uint32_t>(finished.offset / segment % 2), segment);
    RODA_RETURN_IF_ERROR(reduce(dst + finished.offset, src + finished.offset, message, finished.bytes));
  }
}

void LaneRun::map_sources(const Op& op) {
  mapped_.clear();
  state_.mapped = true;
  for (std::uint32_t s = 0; s < op.sources; ++s) {
    const Source& from = source(op, s);
    const char* data = nullptr;
    if (from.peer < 0) {
      data = view_.address(from.operand);
    } else if (const char* base = static_cast<const char*>(view_.group->map(from.peer, view_.window(from.operand)))) {
      data = base + view_.window_offset(from.operand);
    } else {
      state_.mapped = false;
    }
    mapped_.push_back(data);
  }
}

// All operands are addressable: one pass over all of them.
Status LaneRun::combine_mapped(const Op& op, Effort* effort, Turn* turn) {
  const std::size_t total = view_.bytes(op.dst);
  char* dst = view_.address(op.dst);
  while (state_.done < total) {
    if (effort->budget == 0) {
      *turn = Turn::kBlocked;
      return {};
    }
    const std::size_t share = std::max(effort->budget / op.sources, kLine) / kLine * kLine;
    const std::size_t bytes = std::min(share, total - state_.done);
    if (op.sources == 1) {
      copy(dst + state_.done, static_cast<const char*>(mapped_[0]), bytes);
    } else {
      const int code = cpu::reduce_many(dst + state_.done, mapped_.data(), static_cast<int>(op.sources),
                                        bytes / view_.element, view_.dtype, view_.op);
      if (code != RODA_OK) return no_reduction(code);
    }
    for (const void*& from : mapped_) from = static_cast<const char*>(from) + bytes;
    state_.done += bytes;
    effort->spend(bytes * op.sources);
  }
  return {};
}

// Source after source, remote ones fetched in blocks. A local first source joins the first reduction.
Status LaneRun::combine_by_gets(const Op& op, Effort* effort, Turn* turn) {
  const std::size_t total = view_.bytes(op.dst);
  const bool joins = op.sources > 1 && source(op, 0).peer < 0;
  if (joins && state_.source == 0) state_.source = 1;
  while (state_.source < op.sources) {
    const Source& from = source(op, state_.source);
    if (from.peer >= 0) {
      RODA_RETURN_IF_ERROR(get_source(op, from, effort, turn));
      if (*turn == Turn::kBlocked) return {};
    }
    while (from.peer < 0 && state_.done < total) {
      if (effort->budget == 0) {
        *turn = Turn::kBlocked;
        return {};
      }
      const std::size_t bytes = std::min(std::max(effort->budget, kLine) / kLine * kLine, total - state_.done);
      char* to = view_.address(op.dst) + state_.done;
      const char* data = local(state_.source) + state_.done;
      if (state_.source == 0) {
        copy(to, data, bytes);
      } else {
        RODA_RETURN_IF_ERROR(reduce(to, joins && state_.source == 1 ? local(0) + state_.done : to, data, bytes));
      }
      state_.done += bytes;
      effort->spend(bytes);
    }
    ++state_.source;
    state_.posted = state_.done = 0;
  }
  return {};
}

Status LaneRun::get_source(const Op& op, const Source& from, Effort* effort, Turn* turn) {
  const std::size_t total = view_.bytes(op.dst);
  const std::size_t block = view_.options->get_bytes;
  const bool into_place = state_.source == 0;
  const std::uint32_t most = into_place ? kMostPending : 2;
  char* dst = view_.address(op.dst);
  while (state_.done < total) {
    while (count_ < most && state_.posted < total) {
      const std::size_t bytes = std::min(block, total - state_.posted);
      char* to =
          into_place ? dst + state_.posted : bounce(static_cast<std::uint32_t>(state_.posted / block % 2), block);
      roda_request* request = nullptr;
      const int code = view_.group->get(from.peer, view_.window(from.operand),
                                        view_.window_offset(from.operand) + state_.posted, to, bytes, &request);
      if (code == RODA_AGAIN) break;
      RODA_RETURN_IF_ERROR(view_.group->error(code));
      push(request, state_.posted, bytes);
      state_.posted += bytes;
    }
    Pending finished;
    bool got = false;
    if (effort->budget > 0) RODA_RETURN_IF_ERROR(reap(effort, &finished, &got));
    if (!got) {
      *turn = Turn::kBlocked;
      return {};
    }
    if (!into_place) {
      const char* first =
          state_.source == 1 && source(op, 0).peer < 0 ? local(0) + finished.offset : dst + finished.offset;
      const char* data = bounce(static_cast<std::uint32_t>(finished.offset / block % 2), block);
      RODA_RETURN_IF_ERROR(reduce(dst + finished.offset, first, data, finished.bytes));
    }
    state_.done += finished.bytes;
  }
  return {};
}

Status LaneRun::put(const Op& op, Effort* effort, Turn* turn) {
  const std::size_t total = view_.bytes(op.src);
  const char* src = view_.address(op.src);
  const std::size_t offset = view_.window_offset(op.dst);
  while (state_.done < total) {
    if (effort->budget == 0) {
      *turn = Turn::kBlocked;
      return {};
    }
    if (state_.mapped) {
      char* base = static_cast<char*>(view_.group->map(op.peer, view_.window(op.dst)));
      const std::size_t bytes = std::min(effort->budget, total - state_.done);
      copy(base + offset + state_.done, src + state_.done, bytes);
      state_.done += bytes;
      effort->spend(bytes);
      continue;
    }
    while (count_ < kMostPending && state_.posted < total) {
      const std::size_t bytes = std::min(view_.options->get_bytes, total - state_.posted);
      roda_request* request = nullptr;
      const int code =
          view_.group->put(op.peer, view_.window(op.dst), offset + state_.posted, src + state_.posted, bytes, &request);
      if (code == RODA_AGAIN) break;
      RODA_RETURN_IF_ERROR(view_.group->error(code));
      push(request, state_.posted, bytes);
      state_.posted += bytes;
    }
    Pending finished;
    bool got = false;
    RODA_RETURN_IF_ERROR(reap(effort, &finished, &got));
    if (!got) {
      *turn = Turn::kBlocked;
      return {};
    }
    state_.done += finished.bytes;
  }
  return {};
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

Status LaneRun::reduce(char* dst, const char* a, const char* b, std::size_t bytes) const {
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
  return bounce_.reserve(2 * stride) + half * stride;
}

bool LaneRun::release() {
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
  std::string text = kinds[static_cast<std::size_t>(op.kind)];
  int peer = op.peer;
  if (peer == schedule::kAllPeers && state_.peer < view_.program->size - 1) {
    peer = (view_.program->rank + 1 + state_.peer) % view_.program->size;
  }
  text += " rank " + std::to_string(view_.group->world_rank(peer));
  return text + ", step " + std::to_string(op.step + 1);
}

}  // namespace roda::execute
