// The sending half of a link.
#include <algorithm>
#include <cstring>
#include <utility>

#include "transports/gloo/link.h"
#include "transports/gloo/polled.h"
#include "transports/gloo/thread.h"

namespace roda::gloo {

bool Link::Sending::is_done() const { return has_started() && take_sent(frame != nullptr ? *frame->buffer : *data); }

Link::Begun Link::send(Request* request) {
  if (broken_ != nullptr) throw *broken_;
  if (sends_.size() >= kQueueLimit) return Begun::kAgain;
  try {
    if (!asked_.empty()) answer_late(*request);
    sends_.emplace_back().request = request;
    if (must_wait(std::prev(sends_.end()))) {
      ++waiting_;
      return Begun::kPending;
    }
    if (!start(&sends_.back())) return Begun::kPending;
  } catch (const std::exception& broken) {
    if (!sends_.empty() && sends_.back().request == request) sends_.pop_back();
    fail(broken.what());
    throw *broken_;
  }
  recycle(&sends_.back());
  sends_.pop_back();
  return Begun::kDone;
}

// Of one tag: frames keep their order among themselves, and so do long messages of one length.
bool Link::goes_after(const Sending& earlier, const Request& request) const {
  if (earlier.request == nullptr || earlier.request->tag() != request.tag()) return false;
  const bool one_slot =
      is_short(request.bytes()) ? is_short(earlier.request->bytes()) : earlier.request->bytes() == request.bytes();
  return !earlier.has_started() || !one_slot;
}

bool Link::must_wait(Sends::const_iterator message) const {
  const Request& request = *message->request;
  if (is_short(request.bytes()) && idle_frames_.empty() && frames_made_ >= kFramesOut) return true;
  return std::any_of(sends_.begin(), message, [&](const Sending& earlier) { return goes_after(earlier, request); });
}

bool Link::start(Sending* message) {
  const Request& request = *message->request;
  PipeSignalHeld held;
  if (is_short(request.bytes())) {
    message->frame = take_idle_frame();
    Frame& frame = message->frame->frame;
    frame.header = {request.tag(), request.bytes(), FrameHeader::Kind::kMessage, 0};
    if (request.bytes() > 0) std::memcpy(frame.payload.data(), request.data(), request.bytes());
    message->frame->buffer->send(peer_, kFrameSlot, 0, frame.length());
  } else {
    message->data = mesh_.context()->createUnboundBuffer(request.data(), request.bytes());
    message->data->send(peer_, long_slot(request.tag(), request.bytes()));
  }
  if (!message->is_done()) return false;
  held.all_written();
  return true;
}

void Link::start_waiting() {
  for (auto message = sends_.begin(); message != sends_.end() && waiting_ > 0;) {
    if (message->has_started() || must_wait(message)) {
      ++message;
      continue;
    }
    --waiting_;
    message = start(&*message) ? end(message) : std::next(message);
  }
}

Link::Sends::iterator Link::end(Sends::iterator message) {
  if (message->request != nullptr) message->request->end();
  recycle(&*message);
  return sends_.erase(message);
}

std::unique_ptr<FrameBuffer> Link::take_idle_frame() {
  if (idle_frames_.empty()) {
    ++frames_made_;
    return std::make_unique<FrameBuffer>(mesh_);
  }
  std::unique_ptr<FrameBuffer> frame = std::move(idle_frames_.back());
  idle_frames_.pop_back();
  return frame;
}

void Link::recycle(Sending* message) {
  if (message->frame != nullptr) idle_frames_.push_back(std::move(message->frame));
}

int Link::end_sends() {
  int ended = 0;
  for (auto message = sends_.begin(); message != sends_.end();) {
    const bool is_done = message->is_done();
    if (is_done && is_big(*message)) outgoing_.note_end(message->request->bytes());
    message = is_done ? end(message) : std::next(message);
    ended += is_done ? 1 : 0;
  }
  if (ended > 0 && waiting_ > 0) start_waiting();
  return ended;
}

void Link::say(const FrameHeader& words) {
  const PipeSignalHeld held;
  Sending& message = sends_.emplace_back();
  message.frame = take_idle_frame();
  message.frame->frame.header = words;
  message.frame->buffer->send(peer_, kFrameSlot, 0, message.frame->frame.length());
}

// The question's receive is the first of its tag over there, so all messages of the tag before the one that it is for
// have arrived there, and are done here.
void Link::answer(const FrameHeader& question) {
  end_sends();
  const auto oldest = std::find_if(sends_.begin(), sends_.end(), [&](const Sending& message) {
    return message.request != nullptr && message.request->tag() == question.tag;
  });
  if (oldest == sends_.end()) {
    // Those whose message was on its way already stay here.
    if (asked_.size() == kAsksKept) asked_.pop_front();
    asked_.push_back(question);
  } else if (oldest->request->bytes() != question.bytes) {
    say({question.tag, oldest->request->bytes(), FrameHeader::Kind::kRefuse, question.number});
  }
}

void Link::answer_late(const Request& request) {
  const auto question =
      std::find_if(asked_.begin(), asked_.end(), [&](const FrameHeader& asked) { return asked.tag == request.tag(); });
  if (question == asked_.end()) return;
  const FrameHeader asked = *question;
  asked_.erase(question);
  if (asked.bytes == request.bytes()) return;
  say({asked.tag, request.bytes(), FrameHeader::Kind::kRefuse, asked.number});
}

}  // namespace roda::gloo
