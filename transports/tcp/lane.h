// One connection with a peer, made when it is needed: cuts what comes into frames, and writes those that wait.
//
// Payloads are received where they belong: the kernel's copy is the only one, but for what comes in one piece with its
// header. Used by one thread at a time.
#pragma once

#include <sys/uio.h>
#include <roda/sdk/clock.hpp>
#include <roda/sdk/request_table.hpp>

#include <vector>

#include "plugins/base/fork_guard.h"
#include "plugins/base/unique_fd.h"
#include "transports/tcp/tcp.h"

namespace roda::tcp_transport {

struct Peer;
class Context;
class Messages;
struct Unexpected;

// Whatever has a descriptor that the context watches.
class Watched {
 public:
  // `events` are epoll's. Only notes what happened: the work is done by progress().
  virtual void on_event(std::uint32_t events) = 0;

 protected:
  Watched() = default;
  ~Watched() = default;
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
};

// One pending message of a group.
struct Request : sdk::PendingRequest {
  enum class Kind : std::uint8_t { kSend, kReceive };

  Kind kind = Kind::kSend;
  bool is_expected = false;   // counted in its peer's `expected`
  bool is_addressed = false;  // receive: the sender was told its id. send: the receive's id is known, or not needed
  bool is_matched = false;    // receive: the message's first frame came
  std::uint32_t frames = 0;   // send: waiting to be written
  Peer* peer = nullptr;
  std::size_t moved = 0;      // send: put into frames. receive: of which the frames have come
  std::size_t arrived = 0;    // receive
  std::uint64_t partner = 0;  // id of the other end's request; of a receive, 0 until a frame names it
  sdk::ProgressLimit limit;   // on its peer's traffic
};

// Frames of one connection that wait to be written, in order. Payloads stay where they are. One thread at a time.
struct Frame {
  Header header;
  const std::byte* payload = nullptr;  // header.length bytes
  Request* request = nullptr;          // whose `frames` counts this one
  std::size_t size() const { return sizeof header + header.length; }
};

class Outbox {
 public:
  bool empty() const { return first_ == frames_.size(); }
  // Bytes still to be written.
  std::size_t bytes() const { return bytes_; }
  // Nothing, or whole frames only.
  bool at_boundary() const { return written_ == 0; }

  void push(const Frame& frame) {
    frames_.push_back(frame);
    bytes_ += frame.size();
  }

  // What to write next, in at most `most` pieces. Valid until the next call that changes something.
  int gather(iovec* pieces, int most) const {
    int count = 0;
    std::size_t skip = written_;
    for (std::size_t i = first_; i < frames_.size() && count + 2 <= most; ++i) {
      const Frame& frame = frames_[i];
      if (skip < sizeof frame.header) {
        auto* header = reinterpret_cast<char*>(const_cast<Header*>(&frame.header));
        pieces[count++] = {header + skip, sizeof frame.header - skip};
        skip = 0;
      } else {
        skip -= sizeof frame.header;
      }
      if (frame.header.length > skip) {
        pieces[count++] = {const_cast<std::byte*>(frame.payload) + skip, frame.header.length - skip};
      }
      skip = 0;
    }
    return count;
  }
  // `count` bytes were written; `done` is called with each frame that is complete now.
  template <typename Done>
  void advance(std::size_t count, Done&& done) {
    bytes_ -= count;
    count += written_;
    while (!empty() && count >= frames_[first_].size()) {
      const Frame frame = frames_[first_++];
      count -= frame.size();
      done(frame);
    }
    written_ = count;
    compact();
  }
  void clear() {
    frames_.clear();
    first_ = written_ = bytes_ = 0;
  }
  // The rest as one piece of memory, for frames whose owner goes.
  std::vector<std::byte> copy_rest() const {
    std::vector<std::byte> rest;
    rest.reserve(bytes_ + written_);
    for (std::size_t i = first_; i < frames_.size(); ++i) {
      const auto* header = reinterpret_cast<const std::byte*>(&frames_[i].header);
      rest.insert(rest.end(), header, header + sizeof(Header));
      rest.insert(rest.end(), frames_[i].payload, frames_[i].payload + frames_[i].header.length);
    }
    rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(written_));
    return rest;
  }

 private:
  // Frames that are done make room once they are the larger part.
  void compact() {
    if (empty()) {
      frames_.clear();
      first_ = 0;
    } else if (first_ >= 64 && first_ * 2 >= frames_.size()) {
      frames_.erase(frames_.begin(), frames_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
  }

  std::vector<Frame> frames_;  // from first_ on
  std::size_t first_ = 0;
  std::size_t written_ = 0;  // of the first frame
  std::size_t bytes_ = 0;
};

class Lane final : public Watched {
 public:
  Lane(Context& context, Messages& messages, Peer& peer, int index)
      : context_(context), messages_(messages), peer_(peer), index_(index) {}
  ~Lane() { static_cast<void>(release()); }

  Peer& peer() { return peer_; }
  int index() const { return index_; }
  // Until then frames wait in the outbox.
  void connect(UniqueFd fd);
  bool is_open() const { return static_cast<bool>(fd_); }
  // Whether the lane was given up, or never was connected.
  bool is_closed() const { return is_closed_; }
  // Gives the descriptor up for good; frames that wait stay in the outbox.
  UniqueFd release();

  // Reads what has come, to a limit. Returns the number of pieces. Throws sdk::Failure for frames that make no sense.
  int read();
  // Writes what waits and fits. Returns the number of pieces.
  int flush();
  Outbox& outbox() { return outbox_; }
  // Waits for room; when there is some, flush() is called.
  bool is_blocked() const { return is_blocked_; }
  void on_event(std::uint32_t events) override;

  // The frame that is being received: what its payload belongs to, if anything.
  struct Arrival {
    Header header;
    Request* request = nullptr;
    Unexpected* unexpected = nullptr;
  };
  Arrival& arrival() { return arrival_; }
  // The rest of the payload is dropped: its place is gone.
  void drop_payload() {
    target_ = nullptr;
    arrival_.request = nullptr;
    arrival_.unexpected = nullptr;
  }

  // The context's: it is in its lists.
  bool is_readable = false;
  bool is_dirty = false;

 private:
  void take(const std::byte* data, std::size_t bytes);
  void begin();
  void finish();
  void end(int error);
  void set_blocked(bool blocked);

  Context& context_;
  Messages& messages_;
  Peer& peer_;
  const int index_;
  UniqueFd fd_;
  ForkGuard guard_;

  Arrival arrival_;
  std::size_t header_bytes_ = 0;  // of arrival_.header that are here
  bool in_payload_ = false;
  std::byte* target_ = nullptr;  // null: the payload is dropped
  std::size_t left_ = 0;         // of the payload
  bool is_closed_ = false;
  bool is_ending_ = false;  // the end of the stream, or an error, is in sight

  Outbox outbox_;
  bool is_blocked_ = false;
  bool cannot_write_ = false;
};

}  // namespace roda::tcp_transport
