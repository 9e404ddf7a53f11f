// The receiving half of a link.
#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>

#include "transports/gloo/link.h"
#include "transports/gloo/polled.h"
#include "transports/gloo/thread.h"

namespace roda::gloo {

sdk::Failure Link::mismatch(const Request& request, std::uint64_t bytes) const {
  return explain_(RODA_ERR_INVALID, "sent " + std::to_string(bytes) + " bytes where " +
                                        std::to_string(request.bytes()) + " were expected");
}

Link::Begun Link::receive(Request* request) {
  const auto found = std::find_if(unexpected_.begin(), unexpected_.end(),
                                  [request](const Unexpected& message) { return message.tag == request->tag(); });
  if (found != unexpected_.end()) {
    const Unexpected message = std::move(*found);
    unexpected_.erase(found);
    if (message.data.size() != request->bytes()) throw mismatch(*request, message.data.size());
    if (!message.data.empty()) std::memcpy(request->data(), message.data.data(), message.data.size());
    return Begun::kDone;
  }
  if (broken_ != nullptr) throw *broken_;
  Receiving& receive = receives_.emplace_back();
  receive.request = request;
  if (is_short(request->bytes())) return Begun::kPending;
  try {
    const PipeSignalHeld held;
    receive.data = mesh_.context()->createUnboundBuffer(request->data(), request->bytes());
    receive.data->recv(peer_, long_slot(request->tag(), request->bytes()));
  } catch (const std::exception& broken) {
    receives_.pop_back();
    fail(broken.what());
    throw *broken_;
  }
  return Begun::kPending;
}

int Link::end_long_receives() {
  return static_cast<int>(std::erase_if(receives_, [this](const Receiving& receive) {
    if (receive.data == nullptr || !take_received(*receive.data)) return false;
    if (is_big(receive)) incoming_.note_end(receive.request->bytes());
    receive.request->end();
    return true;
  }));
}

int Link::take_frames() {
  std::optional<PipeSignalHeld> held;
  std::string lost;
  int taken = 0;
  for (; take_received(*ring_[next_]->buffer); next_ = (next_ + 1) % kFrames, ++taken) {
    if (!held.has_value()) held.emplace();
    // The long messages that were sent before it are here as well.
    end_long_receives();
    take(ring_[next_]->frame);
    try {
      ring_[next_]->buffer->recv(peer_, kFrameSlot);
    } catch (const std::exception& broken) {
      lost = broken.what();  // after those that have come
    }
  }
  if (!lost.empty()) throw std::runtime_error(lost);
  throw_if_failed(*ring_[next_]->buffer);
  return taken;
}

void Link::take(const Frame& frame) {
  if (!frame.header.is_sane()) throw std::runtime_error("it sent a frame that makes no sense");
  switch (frame.header.kind) {
    case FrameHeader::Kind::kMessage:
      return take_message(frame);
    case FrameHeader::Kind::kAsk:
      return answer(frame.header);
    case FrameHeader::Kind::kRefuse:
      return take_refusal(frame.header);
  }
}

Link::Receives::iterator Link::first_of(std::uint64_t tag) {
  return std::find_if(receives_.begin(), receives_.end(),
                      [tag](const Receiving& receive) { return receive.request->tag() == tag; });
}

void Link::take_message(const Frame& frame) {
  const std::size_t bytes = frame.header.bytes;
  const auto receive = first_of(frame.header.tag);
  if (receive == receives_.end()) {
    unexpected_.push_back({frame.header.tag, {frame.payload.data(), frame.payload.data() + bytes}});
  } else if (receive->request->bytes() != bytes) {
    refuse(receive, bytes);
  } else {
    if (bytes > 0) std::memcpy(receive->request->data(), frame.payload.data(), bytes);
    receive->request->end();
    receives_.erase(receive);
  }
}

// A receive that has been satisfied since its question was asked is here no more.
void Link::take_refusal(const FrameHeader& refusal) {
  const auto receive = std::find_if(receives_.begin(), receives_.end(),
                                    [&](const Receiving& pending) { return pending.asked == refusal.number; });
  if (receive != receives_.end()) refuse(receive, refusal.bytes);
}

void Link::refuse(Receives::iterator receive, std::uint64_t bytes) {
  const sdk::Failure failure = mismatch(*receive->request, bytes);
  if (receive->data != nullptr || !is_short(bytes)) return give_up_(failure);
  receive->request->end(failure);
  receives_.erase(receive);
}

void Link::ask_about_late_ones() {
  if (receives_.empty()) return;
  const Clock::time_point now = Clock::now();
  if (now < next_look_) return;
  next_look_ = now + kPatience;
  for (auto receive = receives_.begin(); receive != receives_.end(); ++receive) {
    const Request& request = *receive->request;
    if (now - request.started() < kPatience) return;
    if (receive->asked != 0 || first_of(request.tag()) != receive) continue;
    receive->asked = ++questions_;
    say({request.tag(), request.bytes(), FrameHeader::Kind::kAsk, receive->asked});
  }
}

}  // namespace roda::gloo
