// Frames of one connection that wait to be written, in order. Payloads stay where they are. One thread at a time.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transports/tcp/request.h"
#include "transports/tcp/wire.h"

namespace roda::tcp_transport {

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

  void push(const Frame& frame);
  Frame& back() { return frames_.back(); }

  // What to write next, in at most `most` pieces. Valid until the next call that changes something.
  int gather(iovec* pieces, int most) const;
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
  void clear();
  // The rest as one piece of memory, for frames whose owner goes.
  std::vector<std::byte> copy_rest() const;

 private:
  void compact();

  std::vector<Frame> frames_;  // from first_ on
  std::size_t first_ = 0;
  std::size_t written_ = 0;  // of the first frame
  std::size_t bytes_ = 0;
};

}  // namespace roda::tcp_transport
