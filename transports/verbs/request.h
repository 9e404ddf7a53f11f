// Pending operations of a group, and the table that finds them by the number that travels.
#pragma once

#include <roda/abi/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transports/verbs/link.h"
#include "transports/verbs/memory.h"

namespace roda::verbs {

struct Request {
  enum class Kind : std::uint8_t { kSend, kReceive, kGet, kPut };
  enum class State : std::uint8_t { kFree, kWaiting, kMoving, kDone };
  static constexpr std::uint32_t kNoBounce = ~0u;

  Kind kind = Kind::kSend;
  State state = State::kFree;
  bool is_announced = false;   // send: the peer was told of it
  bool is_asked = false;       // receive: the peer was told where to write
  bool holds_signals = false;  // put: signals wait for it
  std::uint32_t id = 0;
  std::uint32_t remote_id = 0;  // send: of the peer's receive
  Link* link = nullptr;
  std::uint64_t tag = 0;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::uint32_t bounce = kNoBounce;  // short data go by way of this place

  std::uint64_t address = 0;  // the peer's memory
  std::array<std::uint32_t, kMaxRails> keys{};
  int parts = 1;                // one for each rail in use
  int part = 0;                 // receive: those that have come; others: the next one to post
  std::size_t part_posted = 0;  // bytes of it
  std::uint32_t work_out = 0;   // posted and not ended

  const Registration* memory = nullptr;  // what covers the data: `own`, or memory known for longer
  Registration own;

  std::uint64_t moved_ns = 0;  // when it last went further
  std::int32_t code = RODA_OK;
  std::string message;

  bool overlaps(const void* base, std::size_t length) const {
    const auto* other = static_cast<const std::byte*>(base);
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
  bool all_free() const { return free_.size() == all_.size(); }
  const std::vector<std::unique_ptr<Request>>& all() const { return all_; }

 private:
  std::vector<std::unique_ptr<Request>> all_;
  std::vector<Request*> free_;
};

}  // namespace roda::verbs
