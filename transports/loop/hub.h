// What the members of one loop group share: mailboxes, signals, windows and memory.
#pragma once

#include <roda/abi/transport.h>
#include <roda/sdk/error.hpp>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transports/loop/context.h"

namespace roda::loop {

inline constexpr std::uint32_t kSignals = 256;
inline constexpr std::uint32_t kWindows = 128;
inline constexpr std::size_t kEagerBytes = 4096;

// A send or a receive that did not end at once. Owned by the member that started it; `done` and below are guarded by
// the hub's mutex.
struct Operation {
  int peer = 0;
  std::uint64_t tag = 0;
  void* data = nullptr;
  std::size_t bytes = 0;
  Clock::time_point started;
  bool done = false;
  int code = RODA_OK;
  int rank = -1;
  std::string message;
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
  bool is_aborted(int rank) const;
  void throw_if_aborted(int rank) const;

  // True: done at once, `operation` was not kept.
  bool send(int rank, Operation* operation, Clock::duration delay);
  bool receive(int rank, Operation* operation);
  // The code is RODA_IN_PROGRESS, or says how it ended. `timeout` zero: none.
  sdk::Failure test(int rank, Operation* operation, Clock::duration timeout);

  Clock::time_point next_due(int rank) const;
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
    int from = 0;
    std::uint64_t tag = 0;
    std::size_t bytes = 0;
    Clock::time_point due;
    Operation* sender = nullptr;  // long message: still in the sender's memory
    std::vector<char> copy;       // short message
  };
  struct Window {
    char* base = nullptr;
    std::size_t bytes = 0;
  };
  struct Member {
    Context* context = nullptr;
    bool joined = false;
    bool gone = false;  // left or aborted
    std::unique_ptr<sdk::Failure> cause;
    std::deque<Message> arrived;
    std::deque<Operation*> receives;
    std::deque<Operation*> sends;  // long messages that nobody took yet
    std::vector<Window> windows = std::vector<Window>(kWindows);
  };

  // All with the mutex held.
  Member& member(int rank) { return members_[static_cast<std::size_t>(rank)]; }
  const Member& member(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  void check_alive(int rank, int peer) const;
  bool try_deliver(int rank, Operation* receive, Clock::time_point now);
  void end(int rank, Operation* operation, int code, int from, const std::string& text);
  void end_pending(int rank, const sdk::Failure& cause);
  void withdraw(int rank, const std::string& why);
  void end_orphans(int rank, const std::string& why);
  bool is_on_its_way(int rank, const Operation* receive) const;
  void forget(int rank, Operation* operation);
  const Window& window(int rank, int peer, std::uint32_t slot, std::size_t offset, std::size_t bytes) const;
  std::string who(int rank) const;

  const std::string name_;
  const std::vector<std::int32_t> world_ranks_;
  mutable std::mutex mutex_;
  std::vector<Member> members_;
  bool broken_ = false;
  std::map<char*, std::size_t> blocks_;
  std::vector<char*> graveyard_;
  std::vector<std::atomic<std::uint64_t>> signals_;  // [receiver][sender][index]
};

}  // namespace roda::loop
