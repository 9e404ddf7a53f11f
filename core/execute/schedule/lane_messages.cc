// LaneRun: sends and receives.
#include <algorithm>

#include "core/execute/schedule/lane_run.h"

namespace roda::execute {

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
    const roda_memory* bounce_memory = view_.queue == nullptr ? nullptr : bounce_on_device_.memory();
    const int code =
        view_.group->recv(op.peer, tag.packed(), data, bytes, bounced ? bounce_memory : view_.memory(op.dst), &request);
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
  RODA_RETURN_IF_ERROR(reserve_bounce(segment));
  while (true) {
    bool idle = true;
    RODA_RETURN_IF_ERROR(is_device_idle(&idle));
    if (!idle) {
      *turn = Turn::kBlocked;
      return {};
    }
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
    if (op.dst.space == schedule::Space::kProducts) {
      add_products(dst + finished.offset, src + finished.offset, message, finished.bytes);
      continue;
    }
    RODA_RETURN_IF_ERROR(reduce(dst + finished.offset, src + finished.offset, message, finished.bytes));
  }
}

}  // namespace roda::execute
