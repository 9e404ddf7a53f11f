// What the members of one loop group share: mailboxes, signals, windows and memory.
#pragma once

#include <roda/sdk/matcher.hpp>
#include <roda/sdk/request_table.hpp>

#include <atomic>
#include <map>
#include <memory>

#include "plugins/base/mutex.h"
#include "transports/loop/context.h"

namespace roda::loop {

inline constexpr std::uint32_t kSignals = 256;
inline constexpr std::uint32_t kWindows = 128;

// A send or a receive that did not end at once.
struct Operation : sdk::PendingRequest {
  bool is_send = false;
  int peer = 0;
  Clock::time_point started;
};

struct Message {
  std::uint64_t tag = 0;
  std::size_t bytes = 0;
  Clock::time_point due;
  Operation* sender = nullptr;  // long message: still in the sender's memory
  std::vector<char> copy;       // short message
};

using Box = sdk::Matcher<Operation, Message>;

struct Window {
  char* base = nullptr;
  std::size_t bytes = 0;
};

struct Member {
  Context* context = nullptr;  // null before it joined, and once it left
  bool joined = false;
  bool gone = false;      // left or aborted
  std::vector<Box> from;  // [size], receives against messages
  sdk::RequestTable<Operation> operations;
  std::vector<Window> windows = std::vector<Window>(kWindows);

  void ring() {
    if (context != nullptr) context->ring();
  }
};

// Every member uses it from its own thread. `signals` needs no lock.
struct Hub {
  // The one of that name and generation, made by whoever comes first; it lives as long as someone holds it. Throws
  // sdk::Failure when it was made for another number of members.
  static std::shared_ptr<Hub> find(const roda_group_desc& desc);

  explicit Hub(std::size_t size);
  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  Mutex mutex;
  std::vector<Member> members RODA_GUARDED_BY(mutex);
  bool is_broken RODA_GUARDED_BY(mutex) = false;               // some member aborted
  std::map<char*, std::size_t> blocks RODA_GUARDED_BY(mutex);  // handed out; address -> bytes
  std::vector<std::atomic<std::uint64_t>> signals;             // [receiver][sender][index]
};

}  // namespace roda::loop
