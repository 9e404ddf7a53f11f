// How (sender, 64-bit tag) becomes UCX's one 64-bit tag. Pure arithmetic, no state.
//
// A worker receives for one group only, so the wire tag holds no group:
//
//     sender (as few bits as the group needs) | numbered (1 bit) | value (all other bits)
//
// A tag is given relative to the group's home, the value whose top byte is the generation's low byte: the engine puts
// that there, so its tags become small. A tag that fits into `value` travels as it is: distinct tags stay distinct, and
// nothing needs checking. One that does not fit is announced to the receiver under a running number of the pair, and
// the message carries the number instead. Either way UCX matches on all 64 bits, and two different messages never meet.
#pragma once

#include <roda/sdk/request_pool.hpp>

#include <bit>

#include "transports/ucx/library.h"

namespace roda::ucx {

class TagLayout {
 public:
  TagLayout() = default;
  TagLayout(int size, std::uint64_t generation)
      : value_bits_(63 - std::bit_width(static_cast<unsigned>(size - 1))), home_((generation & 0xff) << 56) {}

  bool fits(std::uint64_t tag) const { return (tag ^ home_) >> value_bits_ == 0; }
  // fits(tag)
  std::uint64_t plain(int sender, std::uint64_t tag) const { return of(sender) | (tag ^ home_); }
  // Numbers wrap after 2^value_bits, far beyond what can be in flight.
  std::uint64_t numbered(int sender, std::uint64_t number) const {
    return of(sender) | std::uint64_t{1} << value_bits_ | (number & ((std::uint64_t{1} << value_bits_) - 1));
  }

 private:
  // A group of one has no peers and no bits for them.
  std::uint64_t of(int sender) const {
    return value_bits_ == 63 ? 0 : static_cast<std::uint64_t>(sender) << (value_bits_ + 1);
  }

  int value_bits_ = 63;
  std::uint64_t home_ = 0;
};

// Small messages of the transport's own between the members of a group, over UCX's active messages.
inline constexpr unsigned kControlId = 0;  // of UCX's active messages

enum class Word : std::uint32_t {
  kHello,    // the first word through a new endpoint
  kReady,    // the sender has the receiver's hello
  kSignal,   // a: index, b: value
  kWindow,   // a: slot, b: address, c: bytes; data: the key, empty when the slot was closed
  kNumber,   // a: tag, b: the number that its next message travels under
  kNothing,  // only to see that UCX took it
  kGoodbye,  // the sender leaves the group; it wants nothing any more
};

// As it travels, in front of the data.
struct ControlHeader {
  Word word;
  std::int32_t sender;     // group rank
  std::uint64_t sequence;  // per pair, from 0: UCX may deliver active messages of different lanes in any order
  std::uint64_t a, b, c;
};

struct ControlMessage {
  ControlHeader header;
  std::vector<char> data;
};

// Brings the messages of one sender into their order. One thread at a time.
class Inbox {
 public:
  // Calls take(header, data, bytes) for this message and for those that waited for it, if it is the next one.
  template <typename Take>
  void arrive(const ControlHeader& header, const char* data, std::size_t bytes, Take&& take) {
    if (header.sequence != next_) {
      if (header.sequence > next_) early_[header.sequence] = {header, std::vector<char>(data, data + bytes)};
      return;
    }
    ++next_;
    take(header, data, bytes);
    for (auto it = early_.find(next_); it != early_.end(); it = early_.find(next_)) {
      const ControlMessage message = std::move(it->second);
      early_.erase(it);
      ++next_;
      take(message.header, message.data.data(), message.data.size());
    }
  }

 private:
  std::uint64_t next_ = 0;
  std::map<std::uint64_t, ControlMessage> early_;
};

// Sends control messages; keeps those that UCX has not taken yet. Lives as long as the worker. One thread at a time.
class Outbox {
 public:
  // What UCX does not take now goes out as the worker makes progress; `untaken`, which lives as long as this, counts
  // it. What is lost with a broken connection is lost. Throws sdk::Failure.
  void send(ucp_ep_h endpoint, const ControlHeader& header, const void* data, std::size_t bytes, int* untaken) {
    // UCX reads the header and the data until the callback.
    Slot* slot = slots_.take();
    slot->owner = this;
    slot->untaken = untaken;
    slot->message.header = header;
    slot->message.data.assign(static_cast<const char*>(data), static_cast<const char*>(data) + bytes);
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
    // UCX asks the peer for its endpoint's number when that is first needed: now, by a hello. An answer that still
    // waits behind other messages when its endpoint is closed ends the process (an assertion of UCX 1.13).
    param.flags = UCP_AM_SEND_FLAG_EAGER | (header.word == Word::kHello ? UCP_AM_SEND_FLAG_REPLY : 0);
    param.user_data = slot;
    param.cb.send = &Outbox::on_taken;
    const ucs_status_ptr_t request = ucp.am_send_nbx(endpoint, kControlId, &slot->message.header, sizeof header,
                                                     slot->message.data.data(), bytes, &param);
    if (!UCS_PTR_IS_PTR(request)) {
      slots_.give_back(slot);
      return check(UCS_PTR_RAW_STATUS(request), "a control message could not be sent");
    }
    ++*untaken;
  }
  // Messages that UCX has not taken yet.
  std::size_t untaken() const { return slots_.in_use(); }

 private:
  struct Slot {
    Outbox* owner;
    int* untaken;
    ControlMessage message;
  };
  static void on_taken(void* request, ucs_status_t, void* user) {
    auto* slot = static_cast<Slot*>(user);
    --*slot->untaken;
    slot->owner->slots_.give_back(slot);
    ucp.request_free(request);
  }

  sdk::RequestPool<Slot> slots_;
};

// Which transports carry an endpoint.
struct Lanes {
  bool some_buffer = true;   // bytes of ended operations may stay in this process (TCP, datagrams, anything unknown)
  bool some_direct = false;  // what UCX takes is in a device's hands or in the peer's memory at once
  bool meets_by_datagrams = false;  // wired up over one that carries nothing else, as RC queue pairs are
};

// The lanes of an endpoint, connected or not.
Lanes lanes_of(ucp_ep_h endpoint);

// The same of UCX's description of an endpoint.
Lanes lanes_of(const std::string& description);

}  // namespace roda::ucx
