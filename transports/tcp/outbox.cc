#include "transports/tcp/outbox.h"

namespace roda::tcp_transport {

void Outbox::push(const Frame& frame) {
  frames_.push_back(frame);
  bytes_ += frame.size();
}

int Outbox::gather(iovec* pieces, int most) const {
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

void Outbox::clear() {
  frames_.clear();
  first_ = written_ = bytes_ = 0;
}

std::vector<std::byte> Outbox::copy_rest() const {
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

// Frames that are done make room once they are the larger part.
void Outbox::compact() {
  if (empty()) {
    frames_.clear();
    first_ = 0;
  } else if (first_ >= 64 && first_ * 2 >= frames_.size()) {
    frames_.erase(frames_.begin(), frames_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
}

}  // namespace roda::tcp_transport
