// Pending operations of a group, and the table that finds them by the id that travels in frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plugins/base/status.h"

namespace roda::tcp_transport {

struct Peer;

struct Request {
  enum class Kind : std::uint8_t { kSend, kReceive };
  enum class State : std::uint8_t { kFree, kPending, kDone };

  Kind kind = Kind::kSend;
  State state = State::kFree;
  bool is_expected = false;   // counted in its peer's `expected`
  bool is_addressed = false;  // receive: the sender was told its id. send: the receive's id is known, or not needed
  bool is_matched = false;    // receive: the message's first frame came
  std::uint32_t slot = 0;
  std::uint32_t serial = 0;
  std::uint32_t frames = 0;  // send: waiting to be written
  Peer* peer = nullptr;
  std::uint64_t tag = 0;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::size_t moved = 0;           // send: put into frames. receive: of which the frames have come
  std::size_t arrived = 0;         // receive
  std::uint64_t partner = 0;       // id of the other end's request; of a receive, 0 until a frame names it
  std::uint64_t looked_at_ns = 0;  // when a test last found its peer's traffic changed, 0: not looked yet
  std::uint64_t traffic_then = 0;
  Status end;  // of a finished one

  // Never 0, and not used again for a long time.
  std::uint64_t id() const { return std::uint64_t{serial} << 32 | slot; }
  bool is_pending() const { return state == State::kPending; }
  bool overlaps(const void* base, std::size_t length) const {
    const auto* other = static_cast<const std::byte*>(base);
    return is_pending() && data < other + length && other < data + bytes;
  }
};

// Allocates only to grow. One thread at a time.
class RequestTable {
 public:
  // With everything but slot and serial as in a new one.
  Request& take() {
    if (free_.empty()) {
      all_.push_back(std::make_unique<Request>());
      all_.back()->slot = static_cast<std::uint32_t>(all_.size() - 1);
      free_.reserve(all_.capacity());
      free_.push_back(all_.back().get());
    }
    Request& request = *free_.back();
    free_.pop_back();
    const std::uint32_t slot = request.slot, serial = request.serial;
    request = Request();
    request.slot = slot;
    request.serial = serial + 1 != 0 ? serial + 1 : 1;
    request.state = Request::State::kPending;
    return request;
  }
  void give_back(Request& request) {
    request.state = Request::State::kFree;
    free_.push_back(&request);
  }
  // The pending one with that id, null if there is none.
  Request* find(std::uint64_t id) {
    const auto slot = static_cast<std::uint32_t>(id);
    if (slot >= all_.size() || all_[slot]->id() != id || !all_[slot]->is_pending()) return nullptr;
    return all_[slot].get();
  }
  const std::vector<std::unique_ptr<Request>>& all() const { return all_; }

 private:
  std::vector<std::unique_ptr<Request>> all_;
  std::vector<Request*> free_;
};

}  // namespace roda::tcp_transport
