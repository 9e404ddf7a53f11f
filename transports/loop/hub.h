// What the members of one loop group share: mailboxes, signals, windows and memory.
#pragma once

#include <roda/abi/transport.h>
#include <roda/sdk/matcher.hpp>
#include <roda/sdk/request_table.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plugins/base/mutex.h"
#include "transports/loop/context.h"

namespace roda::loop {

inline constexpr std::uint32_t kSignals = 256;
inline constexpr std::uint32_t kWindows = 128;
inline constexpr std::size_t kEagerBytes = 4096;

// A send or a receive that did not end at once. Guarded by the hub's mutex.
struct Operation : sdk::PendingRequest {
  bool is_send = false;
  int peer = 0;
  Clock::time_point started;
};

// Thread-safe: every member calls it from its own thread. Entries that can fail throw sdk::Failure.
class Hub {
 public:
  // The hub of that name, made by whoever comes first; it lives as long as someone holds it.
  static std::shared_ptr<Hub> find(const roda_group_desc& desc);
  Hub(std::string name, std::vector<std::int32_t> world_ranks);
  ~Hub();

  int size() const { return static_cast<int>(world_ranks_.size()); }
  void join(int rank, Context* context);
  // True when everyone joined.
  bool complete() const;
  std::string missing() const;
  // Ends all that `rank` has pending with `cause`, and what others have pending with it; sticky.
  void abort(int rank, const sdk::Failure& cause);
  void leave(int rank);
  void throw_if_aborted(int rank) const;

  // The operation, or null when it is done already.
  Operation* send(int rank, int peer, std::uint64_t tag, const void* data, std::size_t bytes, Clock::duration delay);
  Operation* receive(int rank, int peer, std::uint64_t tag, void* data, std::size_t bytes);
  // RODA_IN_PROGRESS, or its end as the ABI's request_test gives it. `timeout` zero: none.
  std::int32_t test(int rank, Operation* operation, Clock::duration timeout);

  Clock::time_point next_due(int rank);
  int deliver_due(int rank);

  void signal(int rank, int peer, std::uint32_t index, std::uint64_t value);
  std::uint64_t signal_value(int rank, int peer, std::uint32_t index) const;

  void open_window(int rank, std::uint32_t slot, void* base, std::size_t bytes);
  void close_window(int rank, std::uint32_t slot);
  void* map_window(int peer, std::uint32_t slot) const;
  // Copies out of (get) or into (put) the peer's window.
  void get(int rank, int peer, std::uint32_t slot, std::size_t offset, void* destination, std::size_t bytes);
  void put(int rank, int peer, std::uint32_t slot, std::size_t offset, const void* source, std::size_t bytes);

  void* allocate(std::size_t bytes);
  void release(void* address);
  bool quiesced(int rank, const void* base, std::size_t bytes) const;

 private:
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
    Context* context = nullptr;
    bool joined = false;
    bool gone = false;  // left or aborted
    std::unique_ptr<sdk::Failure> cause;
    std::vector<Box> from;  // [size], receives against messages
    sdk::RequestTable<Operation> operations;
    std::vector<Window> windows = std::vector<Window>(kWindows);
  };

  Member& member(int rank) RODA_REQUIRES(mutex_) { return members_[static_cast<std::size_t>(rank)]; }
  const Member& member(int rank) const RODA_REQUIRES(mutex_) { return members_[static_cast<std::size_t>(rank)]; }
  Box& box(int rank, int from) RODA_REQUIRES(mutex_) { return member(rank).from[static_cast<std::size_t>(from)]; }
  void check_alive(int rank, int peer) const RODA_REQUIRES(mutex_);
  sdk::Failure gone(int peer) const;
  Operation& begin(int rank, int peer, std::uint64_t tag, const void* data, std::size_t bytes, bool is_send)
      RODA_REQUIRES(mutex_);
  // What is due of the messages from that member; how many there were.
  int deliver(int rank, int from) RODA_REQUIRES(mutex_);
  bool try_deliver(int rank, Operation& receive, Clock::time_point now) RODA_REQUIRES(mutex_);
  void ring(int rank) RODA_REQUIRES(mutex_);
  void withdraw(int rank, const std::string& why) RODA_REQUIRES(mutex_);
  void end_orphans(int rank, const std::string& why) RODA_REQUIRES(mutex_);
  void forget(int rank, const Operation& operation) RODA_REQUIRES(mutex_);
  const Window& window(int rank, int peer, std::uint32_t slot, std::size_t offset, std::size_t bytes) const
      RODA_REQUIRES(mutex_);
  std::string who(int rank) const;

  const std::string name_;
  const std::vector<std::int32_t> world_ranks_;
  mutable Mutex mutex_;
  std::vector<Member> members_ RODA_GUARDED_BY(mutex_);
  bool broken_ RODA_GUARDED_BY(mutex_) = false;
  std::map<char*, std::size_t> blocks_ RODA_GUARDED_BY(mutex_);
  std::vector<char*> graveyard_ RODA_GUARDED_BY(mutex_);
  std::vector<std::atomic<std::uint64_t>> signals_;  // [receiver][sender][index]
};

}  // namespace roda::loop
