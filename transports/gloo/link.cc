#include "transports/gloo/link.h"

#include <gloo/transport/tcp/unbound_buffer.h>

#include <exception>
#include <mutex>

namespace roda::gloo {
namespace {

using TcpBuffer = ::gloo::transport::tcp::UnboundBuffer;

// Asking one of Gloo's buffers whether it is done, without waiting.
//
// Gloo offers no call for that: its waits either sleep or, when they time out, break every connection. But the counters
// that its waits look at are declared in an installed header, for classes that derive from its buffer.
//
// Never made: a derived class may name the members, and what it names are members of the base.
struct Counters : TcpBuffer {
  static constexpr auto kMutex = &Counters::m_;
  static constexpr auto kSent = &Counters::sendCompletions_;
  static constexpr auto kReceived = &Counters::recvCompletions_;
  static constexpr auto kFailure = &Counters::ex_;
};

TcpBuffer& tcp(const Buffer& buffer) { return static_cast<TcpBuffer&>(*buffer); }

// Takes one completed operation from the buffer's count; false when none has completed yet.
bool take(TcpBuffer& buffer, int TcpBuffer::*count) {
  const std::lock_guard lock(buffer.*Counters::kMutex);
  if (buffer.*count == 0) return false;
  --(buffer.*count);
  return true;
}
bool take_sent(const Buffer& buffer) { return take(tcp(buffer), Counters::kSent); }
bool take_received(const Buffer& buffer) { return take(tcp(buffer), Counters::kReceived); }

// Throws what the buffer's connection ended with while an operation on it was pending.
void throw_if_failed(const Buffer& buffer) {
  const std::lock_guard lock(tcp(buffer).*Counters::kMutex);
  if (tcp(buffer).*Counters::kFailure != nullptr) std::rethrow_exception(tcp(buffer).*Counters::kFailure);
}

}  // namespace

int Link::pump(bool* data_came) {
  if (broken_ != nullptr) return 0;
  try {
    if (!is_gloos_to_move() && (!receives_.empty() || !sends_.empty())) *data_came |= drive();
    const int sent = end_sends();
    const int received = end_long_receives();
    const int taken = take_frames();
    ask_about_late_ones();
    return sent + received + taken;
  } catch (const std::exception& broken) {
    return fail(broken.what());
  }
}

std::optional<Clock::time_point> Link::rest() {
  if (!is_gloos_to_move()) return std::nullopt;
  std::optional<Clock::time_point> look;
  const auto now = Clock::now();
  const auto consider = [&look, now](MessageStream& stream, const auto& pending) {
    const auto oldest =
        std::find_if(pending.begin(), pending.end(), is_big<typename std::decay_t<decltype(pending)>::value_type>);
    if (oldest == pending.end()) return;
    const auto next = stream.next_look(oldest->request->bytes, now);
    look = std::min(look.value_or(next), next);
  };
  consider(incoming_, receives_);
  consider(outgoing_, sends_);
  return look;
}

bool Link::withdraw(Request* request) {
  const auto is_it = [request](const auto& pending) { return pending.request == request; };
  const auto receive = std::find_if(receives_.begin(), receives_.end(), is_it);
  if (receive != receives_.end() && receive->data == nullptr) {
    receives_.erase(receive);
    return true;
  }
  const auto send = std::find_if(sends_.begin(), sends_.end(), is_it);
  if (send == sends_.end() || send->has_started()) return false;
  sends_.erase(send);
  --waiting_;
  return true;
}

int Link::fail(const std::string& text) {
  broken_ = std::make_unique<sdk::Failure>(explain_(RODA_ERR_PEER, text));
  const std::size_t pending = sends_.size() + receives_.size();
  std::erase_if(sends_, [this](const Sending& message) {
    if (!message.is_done()) return false;
    if (message.request != nullptr) requests_.finish(*message.request);
    return true;
  });
  for (; take_received(ring_[next_]->buffer); next_ = (next_ + 1) % kFrames) {
    end_long_receives();
    if (ring_[next_]->frame.header.kind == FrameHeader::Kind::kMessage) take_message(ring_[next_]->frame);
  }
  end_long_receives();
  end_all(*broken_);
  return static_cast<int>(pending) + 1;
}

int Link::end_all(const sdk::Failure& cause) {
  if (broken_ == nullptr) broken_ = std::make_unique<sdk::Failure>(cause);
  const std::size_t ended = sends_.size() + receives_.size();
  for (const Sending& message : sends_) {
    if (message.request != nullptr) requests_.finish(*message.request, cause);
  }
  for (const Receiving& receive : receives_) requests_.finish(*receive.request, cause);
  sends_.clear();
  receives_.clear();
  waiting_ = 0;
  return static_cast<int>(ended);
}

// The sending half of a link.
bool Link::Sending::is_done() const { return has_started() && take_sent(frame != nullptr ? frame->buffer : data); }

std::int32_t Link::send(Request& request) {
  if (broken_ != nullptr) throw *broken_;
  if (sends_.size() >= kQueueLimit) return RODA_AGAIN;
  try {
    if (!asked_.empty()) answer_late(request);
    sends_.emplace_back().request = &request;
    if (must_wait(std::prev(sends_.end()))) {
      ++waiting_;
    } else if (start(&sends_.back())) {
      end(std::prev(sends_.end()));
    }
    return RODA_OK;
  } catch (const std::exception& broken) {
    if (!sends_.empty() && sends_.back().request == &request) sends_.pop_back();
    fail(broken.what());
    throw *broken_;
  }
}

bool Link::start(Sending* message) {
  const Request& request = *message->request;
  PipeSignalHeld held;
  if (is_short(request.bytes)) {
    message->frame = take_idle_frame();
    Frame& frame = message->frame->frame;
    frame.header = {request.tag, request.bytes, FrameHeader::Kind::kMessage, 0};
    if (request.bytes > 0) std::memcpy(frame.payload.data(), request.data, request.bytes);
    message->frame->buffer->send(peer_, kFrameSlot, 0, frame.length());
  } else {
    message->data = mesh_.context()->createUnboundBuffer(request.data, request.bytes);
    message->data->send(peer_, long_slot(request.tag, request.bytes));
  }
  if (!message->is_done()) return false;
  held.all_written();
  return true;
}

int Link::end_sends() {
  int ended = 0;
  for (auto message = sends_.begin(); message != sends_.end();) {
    const bool is_done = message->is_done();
    if (is_done && is_big(*message)) outgoing_.note_end(message->request->bytes);
    message = is_done ? end(message) : std::next(message);
    ended += is_done ? 1 : 0;
  }
  if (ended > 0 && waiting_ > 0) start_waiting();
  return ended;
}

// The question's receive is the first of its tag over there, so all messages of the tag before the one that it is for
// have arrived there, and are done here.
void Link::answer(const FrameHeader& question) {
  end_sends();
  const auto oldest = std::find_if(sends_.begin(), sends_.end(), [&](const Sending& message) {
    return message.request != nullptr && message.request->tag == question.tag;
  });
  if (oldest == sends_.end()) {
    // Questions whose message was on its way already stay here.
    if (asked_.size() == kAsksKept) asked_.pop_front();
    asked_.push_back(question);
  } else if (oldest->request->bytes != question.bytes) {
    say({question.tag, oldest->request->bytes, FrameHeader::Kind::kRefuse, question.number});
  }
}

// The receiving half of a link.

std::int32_t Link::receive(Request& request) {
  const auto found = std::find_if(unexpected_.begin(), unexpected_.end(),
                                  [&](const Unexpected& message) { return message.tag == request.tag; });
  if (found != unexpected_.end()) {
    const Unexpected message = std::move(*found);
    unexpected_.erase(found);
    if (message.data.size() != request.bytes) throw mismatch(request, message.data.size());
    if (!message.data.empty()) std::memcpy(request.data, message.data.data(), message.data.size());
    requests_.finish(request);
    return RODA_OK;
  }
  if (broken_ != nullptr) throw *broken_;
  Receiving& receive = receives_.emplace_back();
  receive.request = &request;
  if (is_short(request.bytes)) return RODA_OK;
  try {
    const PipeSignalHeld held;
    receive.data = mesh_.context()->createUnboundBuffer(request.data, request.bytes);
    receive.data->recv(peer_, long_slot(request.tag, request.bytes));
  } catch (const std::exception& broken) {
    receives_.pop_back();
    fail(broken.what());
    throw *broken_;
  }
  return RODA_OK;
}

int Link::end_long_receives() {
  return static_cast<int>(std::erase_if(receives_, [this](const Receiving& receive) {
    if (receive.data == nullptr || !take_received(receive.data)) return false;
    if (is_big(receive)) incoming_.note_end(receive.request->bytes);
    requests_.finish(*receive.request);
    return true;
  }));
}

int Link::take_frames() {
  std::optional<PipeSignalHeld> held;
  std::string lost;
  int taken = 0;
  for (; take_received(ring_[next_]->buffer); next_ = (next_ + 1) % kFrames, ++taken) {
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
  throw_if_failed(ring_[next_]->buffer);
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

void Link::take_message(const Frame& frame) {
  const std::size_t bytes = frame.header.bytes;
  const auto receive = first_of(frame.header.tag);
  if (receive == receives_.end()) {
    unexpected_.push_back({frame.header.tag, {frame.payload.data(), frame.payload.data() + bytes}});
  } else if (receive->request->bytes != bytes) {
    refuse(receive, bytes);
  } else {
    if (bytes > 0) std::memcpy(receive->request->data, frame.payload.data(), bytes);
    requests_.finish(*receive->request);
    receives_.erase(receive);
  }
}

void Link::ask_about_late_ones() {
  if (receives_.empty()) return;
  const Clock::time_point now = Clock::now();
  if (now < next_look_) return;
  next_look_ = now + kAskAfter;
  for (auto receive = receives_.begin(); receive != receives_.end(); ++receive) {
    const Request& request = *receive->request;
    if (now - request.started < kAskAfter) return;
    if (receive->asked != 0 || first_of(request.tag) != receive) continue;
    receive->asked = ++questions_;
    say({request.tag, request.bytes, FrameHeader::Kind::kAsk, receive->asked});
  }
}

}  // namespace roda::gloo
