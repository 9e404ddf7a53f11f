// Pending operations of a group, and the table that finds them by the number that travels in records.
#pragma once

#include <roda/abi/transport.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace roda::shm {

struct Request {
  enum class Kind : std::uint8_t { kSend, kRecv, kGet, kPut };
  enum class State : std::uint8_t {
    kFree,
    kWaiting,    // for a record of the peer
    kPulling,    // we copy from the peer's memory
    kPushing,    // we copy into the peer's memory
    kStreaming,  // we feed the ring
    kDone,
  };

  Kind kind = Kind::kSend;
  State state = State::kFree;
  bool internal = false;  // serves a peer's get or put: nobody tests it
  bool mapped = false;    // `remote` is an address in this process
  std::uint32_t id = 0;
  std::uint32_t remote_id = 0;
  int peer = 0;
  std::uint64_t tag = 0;
  std::byte* data = nullptr;  // local
  std::size_t bytes = 0;
  std::size_t moved = 0;
  std::uint64_t remote = 0;       // the peer's memory
  std::uint64_t moved_at_ns = 0;  // when a test last found it further, 0: not looked yet
  std::size_t moved_then = 0;
  std::int32_t code = RODA_OK;  // of a finished one
  std::string message;

  bool overlaps(const void* base, std::size_t length) const {
    auto other = static_cast<const std::byte*>(base);
    return state != State::kFree && data < other + length && other < data + bytes;
  }
};

// Allocates only to grow. One thread at a time.
class RequestTable {
 public:
  Request& take() {
    if (free_.empty()) {
      all_.push_back(std::make_unique<Request>());
      all_.back()->id = static_cast<std::uint32_t>(all_.size() - 1);
      free_.reserve(all_.capacity());
      free_.push_back(all_.back().get());
    }
    Request& request = *free_.back();
    free_.pop_back();
    return request;
  }
  void give_back(Request& request) {
    request.state = Request::State::kFree;
    free_.push_back(&request);
  }
  // Null for a number that isn't in use.
  Request* find(std::uint32_t id) {
    return id < all_.size() && all_[id]->state != Request::State::kFree ? all_[id].get() : nullptr;
  }
  const std::vector<std::unique_ptr<Request>>& all() const { return all_; }

 private:
  std::vector<std::unique_ptr<Request>> all_;
  std::vector<Request*> free_;
};

}  // namespace roda::shm
