// Small messages of the transport's own between the members of a group, over UCX's active messages.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace roda::ucx {

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
  void send(ucp_ep_h endpoint, const ControlHeader& header, const void* data, std::size_t bytes, int* untaken);
  // Messages that UCX has not taken yet.
  int untaken() const { return untaken_; }

 private:
  struct Slot {
    Outbox* owner;
    int* untaken;
    ControlMessage message;
  };
  static void on_taken(void* request, ucs_status_t status, void* slot);

  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<Slot*> free_;
  int untaken_ = 0;
};

inline constexpr unsigned kControlId = 0;

}  // namespace roda::ucx
