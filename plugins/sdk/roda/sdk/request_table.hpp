// Pending operations of a group: where they live, by which number they are found, and how they end.
#pragma once

#include <roda/abi/transport.h>
#include <roda/sdk/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace roda::sdk {

// What a transport's Request begins with.
struct PendingRequest {
  enum class Life : std::uint8_t { kFree, kPending, kDone };

  std::uint32_t slot = 0;    // its number in the table, small: one pending operation at a time has it
  std::uint32_t serial = 0;  // how often the slot was used
  Life life = Life::kFree;
  bool is_internal = false;  // nobody will test it: it is free when it ends
  std::uint64_t tag = 0;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::int32_t code = RODA_OK;  // of one that is done; with its text and the world rank that it is about
  std::int32_t error_rank = -1;
  std::string message;

  // Never 0, and not used again for a long time.
  std::uint64_t id() const { return std::uint64_t{serial} << 32 | slot; }
  bool is_pending() const { return life == Life::kPending; }
};

// `Request` derives from PendingRequest and can be assigned a new one. Allocates only to grow; addresses stay. One
// thread at a time.
template <typename Request>
class RequestTable {
 public:
  // As a new one, but for its number, and pending.
  Request& take(const void* data, std::size_t bytes, std::uint64_t tag = 0) {
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
    request.life = PendingRequest::Life::kPending;
    request.data = static_cast<std::byte*>(const_cast<void*>(data));
    request.bytes = bytes;
    request.tag = tag;
    ++pending_;
    return request;
  }
  // The request did not start after all.
  void give_back(Request& request) {
    if (request.is_pending()) --pending_;
    request.life = PendingRequest::Life::kFree;
    free_.push_back(&request);
  }

  // The pending one with that slot, or that id; null if there is none.
  Request* find(std::uint32_t slot) {
    return slot < all_.size() && all_[slot]->is_pending() ? all_[slot].get() : nullptr;
  }
  Request* find_id(std::uint64_t id) {
    Request* request = find(static_cast<std::uint32_t>(id));
    return request != nullptr && request->id() == id ? request : nullptr;
  }
  std::size_t pending() const { return pending_; }
  // `body(Request&)` for each pending one; it may end it.
  template <typename Body>
  void for_each_pending(Body&& body) {
    if (pending_ == 0) return;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (all_[i]->is_pending()) body(*all_[i]);
    }
  }
  // True when a pending one's memory touches the range.
  bool touches(const void* base, std::size_t bytes) const {
    return pending_ > 0 && std::any_of(all_.begin(), all_.end(), [&](const auto& r) {
             return r->is_pending() && overlaps(r->data, r->bytes, base, bytes);
           });
  }

  // --- its end ---
  void finish(Request& request) {
    if (request.is_internal) return give_back(request);
    --pending_;
    request.life = PendingRequest::Life::kDone;
  }
  void finish(Request& request, const Failure& failure) {
    request.code = failure.code();
    request.error_rank = failure.rank();
    request.message = failure.what();
    finish(request);
  }
  // The end of one that is done, as the ABI's request_test gives it: it is free from now on.
  std::int32_t collect(Request& request) {
    const std::int32_t code = request.code, rank = request.error_rank;
    give_back(request);
    if (code != RODA_OK) throw Failure(code, std::move(request.message), rank);
    return RODA_OK;
  }
  // What an entry that starts one returns: the request, or its end if it has one already.
  std::int32_t hand_out(Request& request, Request** handle) {
    *handle = nullptr;
    if (!request.is_pending()) return collect(request);
    *handle = &request;
    return RODA_OK;
  }

 private:
  std::vector<std::unique_ptr<Request>> all_;
  std::vector<Request*> free_;
  std::size_t pending_ = 0;
};

}  // namespace roda::sdk
