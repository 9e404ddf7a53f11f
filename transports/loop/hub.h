// What the members of one loop group share: mailboxes, signals, windows and memory.
#pragma once

#include <roda/sdk/doorbell.hpp>
#include <roda/sdk/group_state.hpp>
#include <roda/sdk/matcher.hpp>
#include <roda/sdk/request_table.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>

#include "plugins/base/mutex.h"
#include "plugins/base/unique_fd.h"
#include "transports/loop/loop.h"

namespace roda::loop {

using Clock = std::chrono::steady_clock;
class Group;

// One rank's use of the transport: its doorbell, its faults, and the timer behind delayed messages.
//
// ring() from any thread, the rest from the rank's own.
class Context : public sdk::GroupList<Group> {
 public:
  explicit Context(const roda_host* host);

  void ring() { doorbell_.ring(); }
  int event_fd() const { return poll_.get(); }
  // False when a delayed message has become due.
  bool arm();
  void disarm() { doorbell_.disarm(); }

  // To be asked once per operation. Throws the injected failure; true asks for RODA_AGAIN.
  bool count_operation() {
    if (settings_.again_every > 0 && ++attempts_ % settings_.again_every == 0) return true;
    if (settings_.fail_after < 0 || ++operations_ <= settings_.fail_after) return false;
    throw sdk::Failure(RODA_ERR_PEER, "injected: RODA_TEST_LOOP_FAIL_AFTER=" + std::to_string(settings_.fail_after));
  }
  Clock::duration delay() const { return std::chrono::microseconds(settings_.delay_us); }

 private:
  const Settings settings_;
  sdk::Doorbell doorbell_;
  UniqueFd timer_;  // delayed messages need a clock to wake a sleeper
  UniqueFd poll_;   // both of them
  std::int64_t operations_ = 0;
  std::int64_t attempts_ = 0;
};

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

  explicit Hub(std::size_t size) : members(size), signals(size * size * kSignals) {
    for (Member& each : members) each.from.resize(size);
  }
  ~Hub() {
    for (const auto& [block, bytes] : blocks) std::free(block);
  }
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  Mutex mutex;
  std::vector<Member> members RODA_GUARDED_BY(mutex);
  bool is_broken RODA_GUARDED_BY(mutex) = false;               // some member aborted
  std::map<char*, std::size_t> blocks RODA_GUARDED_BY(mutex);  // handed out; address -> bytes
  std::vector<std::atomic<std::uint64_t>> signals;             // [receiver][sender][index]
};

}  // namespace roda::loop
