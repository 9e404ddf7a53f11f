#include "transports/gloo/link.h"

#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "transports/gloo/thread.h"

namespace roda::gloo {
namespace {

using Buffer = std::unique_ptr<::gloo::transport::UnboundBuffer>;

// Above the slots of Gloo's collectives (gloo/types.h), which use the lower 48 bits.
constexpr std::uint64_t kFrameSlot = 0x70ULL << 56;
constexpr std::uint64_t kPayloadSlot = 0x71ULL << 56;

// No limit: the peer may not have used the link yet, and requests have their own deadline. Not all versions of Gloo
// take zero for "none".
constexpr std::chrono::hours kForever{100};

}  // namespace

Link::Link(std::shared_ptr<::gloo::Context> context, int peer, Explain explain, std::function<void()> notify)
    : context_(std::move(context)), peer_(peer), explain_(std::move(explain)), notify_(std::move(notify)) {
  receiver_ = start_thread("roda-gloo-recv", [this] { receive_loop(); });
  sender_ = start_thread("roda-gloo-send", [this] { send_loop(); });
}

Link::~Link() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  outgoing_changed_.notify_all();
  sender_.join();
  receiver_.join();
}

bool Link::send(Request* request) {
  {
    std::lock_guard lock(mutex_);
    if (broken_ != nullptr) throw *broken_;
    if (outgoing_.size() >= kQueueLimit) return false;
    outgoing_.push_back(request);
  }
  outgoing_changed_.notify_one();
  return true;
}

bool Link::receive(Request* request) {
  std::lock_guard lock(mutex_);
  const auto found = std::find_if(unexpected_.begin(), unexpected_.end(), [request](const Unexpected& message) {
    return message.tag == request->tag() && message.taker == nullptr;
  });
  if (found != unexpected_.end() && found->complete) {
    const Unexpected message = std::move(*found);
    unexpected_.erase(found);
    if (message.data.size() != request->bytes()) throw mismatch(*request, message.data.size());
    if (!message.data.empty()) std::memcpy(request->data(), message.data.data(), message.data.size());
    return true;
  }
  if (broken_ != nullptr) throw *broken_;
  if (found != unexpected_.end()) {
    found->taker = request;
  } else {
    receives_.push_back(request);
  }
  return false;
}

bool Link::withdraw(Request* request) {
  std::lock_guard lock(mutex_);
  return std::erase(receives_, request) + std::erase(outgoing_, request) > 0;
}

sdk::Failure Link::mismatch(const Request& request, std::size_t bytes) const {
  return explain_(RODA_ERR_INVALID, "sent " + std::to_string(bytes) + " bytes where " +
                                        std::to_string(request.bytes()) + " were expected");
}

void Link::wait(::gloo::transport::UnboundBuffer* buffer, Direction direction) {
  const Waits::Guard guard(waits_, buffer);
  const bool done = direction == Direction::kSend ? buffer->waitSend(kForever) : buffer->waitRecv(kForever);
  if (!done) throw std::runtime_error("the connection was given up");
}

void Link::fail(const std::string& text) {
  std::lock_guard lock(mutex_);
  if (broken_ == nullptr) broken_ = std::make_unique<sdk::Failure>(explain_(RODA_ERR_PEER, text));
  std::vector<Request*> ended(receives_.begin(), receives_.end());
  ended.insert(ended.end(), outgoing_.begin(), outgoing_.end());
  for (const Unexpected& message : unexpected_) {
    if (message.taker != nullptr) ended.push_back(message.taker);
  }
  receives_.clear();
  outgoing_.clear();
  unexpected_.remove_if([](const Unexpected& message) { return !message.complete; });
  for (Request* request : ended) request->end(*broken_);
  stopping_ = true;
  waits_.give_up();  // the other direction's thread
  outgoing_changed_.notify_all();
  notify_();
}

void Link::send_loop() {
  auto frame = std::make_unique<Frame>();
  while (true) {
    Request* request = nullptr;
    {
      std::unique_lock lock(mutex_);
      outgoing_changed_.wait(lock, [this] { return stopping_ || !outgoing_.empty(); });
      if (stopping_) return;
      request = outgoing_.front();
      outgoing_.pop_front();
    }
    try {
      send_one(request, frame.get());
      request->end();
      notify_();
    } catch (const std::exception& broken) {
      request->end(explain_(RODA_ERR_PEER, broken.what()));
      fail(broken.what());
      return;
    }
  }
}

void Link::send_one(Request* request, Frame* frame) {
  frame->tag = request->tag();
  frame->bytes = request->bytes();
  const bool is_short = request->bytes() <= kInlineBytes;
  if (is_short && request->bytes() > 0) std::memcpy(frame->payload.data(), request->data(), request->bytes());
  const Buffer header = context_->createUnboundBuffer(frame, kHeaderBytes + (is_short ? request->bytes() : 0));
  header->send(peer_, kFrameSlot);
  Buffer payload;
  if (!is_short) {
    payload = context_->createUnboundBuffer(request->data(), request->bytes());
    payload->send(peer_, kPayloadSlot);
  }
  wait(header.get(), Direction::kSend);
  if (payload != nullptr) wait(payload.get(), Direction::kSend);
}

void Link::receive_loop() {
  std::array<Frame, kFrames> frames;
  std::array<Buffer, kFrames> buffers;
  try {
    for (std::size_t i = 0; i < kFrames; ++i) {
      buffers[i] = context_->createUnboundBuffer(&frames[i], sizeof(Frame));
      buffers[i]->recv(peer_, kFrameSlot);
    }
    for (std::size_t i = 0;; i = (i + 1) % kFrames) {
      wait(buffers[i].get(), Direction::kReceive);
      take(frames[i]);
      buffers[i]->recv(peer_, kFrameSlot);
    }
  } catch (const std::exception& broken) {
    fail(broken.what());
  }
}

Request* Link::match(std::uint64_t tag) {
  const auto found =
      std::find_if(receives_.begin(), receives_.end(), [tag](const Request* request) { return request->tag() == tag; });
  if (found == receives_.end()) return nullptr;
  Request* request = *found;
  receives_.erase(found);
  return request;
}

void Link::deliver(Request* request, const void* data, std::size_t bytes) {
  if (bytes != request->bytes()) {
    request->end(mismatch(*request, bytes));
  } else {
    if (bytes > 0 && data != request->data()) std::memcpy(request->data(), data, bytes);
    request->end();
  }
  notify_();
}

void Link::take(const Frame& frame) {
  std::unique_lock lock(mutex_);
  Request* request = match(frame.tag);
  if (frame.bytes > kInlineBytes) return take_long(lock, frame, request);
  if (request != nullptr) return deliver(request, frame.payload.data(), frame.bytes);
  Unexpected message;
  message.tag = frame.tag;
  message.data.assign(frame.payload.data(), frame.payload.data() + frame.bytes);
  message.complete = true;
  unexpected_.push_back(std::move(message));
}

void Link::take_long(std::unique_lock<std::mutex>& lock, const Frame& frame, Request* request) {
  if (request != nullptr && request->bytes() == frame.bytes) {
    lock.unlock();
    try {
      receive_payload(request->data(), request->bytes());
    } catch (const std::exception& broken) {
      request->end(explain_(RODA_ERR_PEER, broken.what()));
      throw;
    }
    return deliver(request, request->data(), request->bytes());
  }
  Unexpected& message = unexpected_.emplace_back();
  message.tag = frame.tag;
  message.taker = request;
  message.data.resize(frame.bytes);
  lock.unlock();
  receive_payload(message.data.data(), message.data.size());
  lock.lock();
  message.complete = true;
  if (message.taker == nullptr) return;
  deliver(message.taker, message.data.data(), message.data.size());
  unexpected_.remove_if([&message](const Unexpected& other) { return &other == &message; });
}

void Link::receive_payload(void* data, std::size_t bytes) {
  const Buffer buffer = context_->createUnboundBuffer(data, bytes);
  buffer->recv(peer_, kPayloadSlot);
  wait(buffer.get(), Direction::kReceive);
}

}  // namespace roda::gloo
