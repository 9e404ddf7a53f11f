#include "plugins/base/framing.h"

#include "plugins/base/format.h"
#include "plugins/base/socket.h"

namespace roda {

namespace {

constexpr std::size_t kHeader = 4;
constexpr std::size_t kReadAhead = 16 * 1024;

std::size_t load_length(const std::uint8_t* at) {
  return at[0] | std::size_t{at[1]} << 8 | std::size_t{at[2]} << 16 | std::size_t{at[3]} << 24;
}

}  // namespace

Status FrameReader::check_length() const {
  if (buffered() < kHeader) return {};
  std::size_t length = load_length(&buffer_[start_]);
  if (length <= max_frame_) return {};
  return Status::invalid(roda::format("a frame of {} bytes was announced; the bound is {}", length, max_frame_));
}

bool FrameReader::has_buffered_frame() const {
  return buffered() >= kHeader && buffered() - kHeader >= load_length(&buffer_[start_]);
}

bool FrameReader::take(std::vector<std::uint8_t>* frame) {
  if (!has_buffered_frame()) return false;
  std::size_t length = load_length(&buffer_[start_]);
  auto from = buffer_.begin() + static_cast<std::ptrdiff_t>(start_ + kHeader);
  frame->assign(from, from + static_cast<std::ptrdiff_t>(length));
  start_ += kHeader + length;
  if (start_ == buffer_.size()) {
    buffer_.clear();
    start_ = 0;
  }
  return true;
}

Status FrameReader::receive(int fd, std::vector<std::uint8_t>* frame, bool* complete) {
  *complete = false;
  while (true) {
    RODA_RETURN_IF_ERROR(check_length());
    if (take(frame)) {
      *complete = true;
      return {};
    }
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(start_));
    start_ = 0;
    // Memory grows with what has really come, not with what a header announces.
    std::size_t held = buffer_.size();
    buffer_.resize(held + kReadAhead);
    std::size_t count = 0;
    bool end = false;
    Status status = tcp::read_some(fd, std::span(buffer_).subspan(held), &count, &end);
    buffer_.resize(held + count);
    RODA_RETURN_IF_ERROR(status);
    if (end)
      return Status::peer(-1, held > 0 ? "the connection was closed inside a frame" : "the connection was closed");
    if (count == 0) return {};
  }
}

Status FrameWriter::push(Bytes payload, bool* accepted) {
  *accepted = false;
  if (payload.size() > max_frame_) {
    return Status::invalid(roda::format("a frame of {} bytes is over the bound of {}", payload.size(), max_frame_));
  }
  std::size_t waiting = queue_.size() - start_;
  if (waiting > 0 && waiting + payload.size() + kHeader > max_queued_) return {};
  if (start_ > waiting) {  // moving the rest is cheaper than what was sent
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(start_));
    start_ = 0;
  }
  for (std::size_t shift = 0; shift < 32; shift += 8) {
    queue_.push_back(static_cast<std::uint8_t>(payload.size() >> shift));
  }
  queue_.insert(queue_.end(), payload.begin(), payload.end());
  *accepted = true;
  return {};
}

Status FrameWriter::flush(int fd) {
  while (!empty()) {
    std::size_t count = 0;
    RODA_RETURN_IF_ERROR(tcp::write_some(fd, Bytes(queue_).subspan(start_), &count));
    if (count == 0) return {};
    start_ += count;
  }
  queue_.clear();
  start_ = 0;
  return {};
}

}  // namespace roda
