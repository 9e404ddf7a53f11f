// Frames on a byte stream: a 32-bit little-endian length, then that many bytes. Both ends bound the length before they
// take memory. Non-blocking; used by one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "plugins/base/hmac.h"
#include "plugins/base/status.h"

namespace roda {

class FrameReader {
 public:
  explicit FrameReader(std::size_t max_frame) : max_frame_(max_frame) {}

  // Takes what the descriptor has, at most to the end of one frame beyond those already buffered. *complete: *frame
  // holds the next one. The end of the stream is RODA_ERR_PEER, a length over the bound RODA_ERR_INVALID; both stay.
  Status receive(int fd, std::vector<std::uint8_t>* frame, bool* complete);
  // A whole frame is buffered: receive() again without waiting for the descriptor.
  bool has_buffered_frame() const;

 private:
  bool take(std::vector<std::uint8_t>* frame);
  Status check_length() const;
  std::size_t buffered() const { return buffer_.size() - start_; }

  std::size_t max_frame_;
  std::vector<std::uint8_t> buffer_;  // from start_: bytes received and not handed out
  std::size_t start_ = 0;
};

class FrameWriter {
 public:
  FrameWriter(std::size_t max_frame, std::size_t max_queued) : max_frame_(max_frame), max_queued_(max_queued) {}

  // Queues a copy. *accepted is false, and nothing is queued, while more than max_queued bytes wait (one frame is
  // always accepted by an empty queue).
  Status push(Bytes payload, bool* accepted);
  // Writes what the descriptor takes.
  Status flush(int fd);
  bool empty() const { return start_ == queue_.size(); }

 private:
  std::size_t max_frame_;
  std::size_t max_queued_;
  std::vector<std::uint8_t> queue_;
  std::size_t start_ = 0;
};

}  // namespace roda
