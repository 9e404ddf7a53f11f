// What the members of one loop group share: mailboxes, signals, windows and memory.
#pragma once

#include <roda/sdk/matcher.hpp>
#include <roda/sdk/request_table.hpp>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "plugins/base/mutex.h"
#include "transports/loop/context.h"

namespace roda::loop {

inline constexpr std::uint32_t kSignals = 256;
inline constexpr std::uint32_t kWindows = 128;
inline constexpr std::size_t kEagerBytes = 4096;
inline constexpr std::size_t kAlignment = 64;

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
  static std::shared_ptr<Hub> find(const roda_group_desc& desc) {
    static Mutex mutex;
    static auto& hubs RODA_GUARDED_BY(mutex) =
        *new std::map<std::pair<std::string, std::uint64_t>, std::weak_ptr<Hub>>();
    const MutexLock lock(mutex);
    std::erase_if(hubs, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<Hub>& entry = hubs[{desc.name, desc.generation}];
    std::shared_ptr<Hub> hub = entry.lock();
    if (hub == nullptr) {
      hub = std::make_shared<Hub>(desc.name, std::vector<std::int32_t>(desc.world_ranks, desc.world_ranks + desc.size));
      entry = hub;
    }
    if (hub->size() != desc.size) {
      throw sdk::Failure(RODA_ERR_PRECONDITION, "group " + hub->name_ + " was formed with " +
                                                    std::to_string(hub->size()) + " members, not " +
                                                    std::to_string(desc.size));
    }
    return hub;
  }
  Hub(std::string name, std::vector<std::int32_t> world_ranks)
      : name_(std::move(name)),
        world_ranks_(std::move(world_ranks)),
        members_(world_ranks_.size()),
        signals_(world_ranks_.size() * world_ranks_.size() * kSignals) {
    for (Member& each : members_) each.from.resize(world_ranks_.size());
  }
  ~Hub() {
    for (const auto& [block, bytes] : blocks_) std::free(block);
    for (char* block : graveyard_) std::free(block);
  }

  int size() const { return static_cast<int>(world_ranks_.size()); }
  void join(int rank, Context* context) {
    const MutexLock lock(mutex_);
    Member& self = member(rank);
    if (self.joined) {
      throw sdk::Failure(RODA_ERR_INVALID, "rank " + std::to_string(rank) + " joined group " + name_ + " twice");
    }
    self.joined = true;
    self.context = context;
    for (const Member& other : members_) {
      if (other.context != nullptr) other.context->ring();
    }
  }
  // True when everyone joined.
  bool complete() const {
    const MutexLock lock(mutex_);
    return std::all_of(members_.begin(), members_.end(), [](const Member& m) { return m.joined; });
  }
  std::string missing() const {
    const MutexLock lock(mutex_);
    std::string ranks;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (!members_[i].joined) ranks += (ranks.empty() ? "" : ", ") + std::to_string(world_ranks_[i]);
    }
    return ranks;
  }
  // Ends all that `rank` has pending with `cause`, and what others have pending with it; sticky.
  void abort(int rank, const sdk::Failure& cause) {
    const MutexLock lock(mutex_);
    Member& self = member(rank);
    if (self.cause != nullptr || !self.joined) return;
    self.cause = std::make_unique<sdk::Failure>(cause);
    broken_ = true;
    self.operations.for_each_pending([&](Operation& operation) { self.operations.finish(operation, cause); });
    ring(rank);
    withdraw(rank, std::string("aborted: ") + cause.what());
  }
  void leave(int rank) {
    const MutexLock lock(mutex_);
    Member& self = member(rank);
    withdraw(rank, "left the group " + name_);
    std::fill(self.windows.begin(), self.windows.end(), Window{});
    self.context = nullptr;
  }
  void throw_if_aborted(int rank) const {
    const MutexLock lock(mutex_);
    if (member(rank).cause != nullptr) throw *member(rank).cause;
  }

  // The operation, or null when it is done already.
  Operation* send(int rank, int peer, std::uint64_t tag, const void* data, std::size_t bytes, Clock::duration delay) {
    const MutexLock lock(mutex_);
    check_alive(rank, peer);
    if (member(peer).gone) throw gone(peer);
    Message& message = box(peer, rank).keep(tag);
    message.bytes = bytes;
    message.due = Clock::now() + delay;
    Operation* sending = nullptr;
    if (bytes <= kEagerBytes) {
      const char* text = static_cast<const char*>(data);
      message.copy.assign(text, text + bytes);
    } else {
      sending = message.sender = &begin(rank, peer, tag, data, bytes, true);
    }
    deliver(peer, rank);
    ring(peer);  // also for a delayed message: the sleeper must set its timer
    if (sending != nullptr) member(rank).operations.hand_out(*sending, &sending);
    return sending;
  }
  Operation* receive(int rank, int peer, std::uint64_t tag, void* data, std::size_t bytes) {
    const MutexLock lock(mutex_);
    check_alive(rank, peer);
    if (member(peer).gone && box(rank, peer).find(tag) == nullptr) throw gone(peer);
    Operation* receiving = &begin(rank, peer, tag, data, bytes, false);
    box(rank, peer).await(receiving);
    deliver(rank, peer);
    // An error is told by the test.
    if (!receiving->is_pending() && receiving->code != RODA_OK) return receiving;
    member(rank).operations.hand_out(*receiving, &receiving);
    return receiving;
  }
  // RODA_IN_PROGRESS, or its end as the ABI's request_test gives it. `timeout` zero: none.
  std::int32_t test(int rank, Operation* operation, Clock::duration timeout) {
    const MutexLock lock(mutex_);
    sdk::RequestTable<Operation>& operations = member(rank).operations;
    if (operation->is_pending()) {
      const bool is_late = timeout != Clock::duration::zero() && Clock::now() - operation->started >= timeout;
      if (!is_late) return RODA_IN_PROGRESS;
      forget(rank, *operation);
      operations.finish(*operation, {RODA_ERR_TIMEOUT, "no answer from " + who(operation->peer) + " in group " + name_,
                                     world_ranks_[static_cast<std::size_t>(operation->peer)]});
    }
    return operations.collect(*operation);
  }

  Clock::time_point next_due(int rank) {
    const MutexLock lock(mutex_);
    Clock::time_point next = Clock::time_point::max();
    // A message that nobody asked for yet wakes no one.
    for (Box& from : member(rank).from) {
      for (const Operation* receive : from.awaited()) {
        if (const Message* message = from.find(receive->tag)) next = std::min(next, message->due);
      }
    }
    return next;
  }
  int deliver_due(int rank) {
    const MutexLock lock(mutex_);
    int delivered = 0;
    for (int peer = 0; peer < size(); ++peer) delivered += deliver(rank, peer);
    if (delivered > 0) end_orphans(rank, "a peer is no longer in group " + name_);
    return delivered;
  }

  // Signals, windows and memory of a loop group.
  void signal(int rank, int peer, std::uint32_t index, std::uint64_t value) {
    check_index(index, kSignals, "signal");
    const MutexLock lock(mutex_);
    check_alive(rank, peer);
    const auto from = static_cast<std::size_t>(rank), to = static_cast<std::size_t>(peer);
    signals_[(to * world_ranks_.size() + from) * kSignals + index].store(value, std::memory_order_release);
    if (member(peer).context != nullptr) member(peer).context->ring();
  }
  std::uint64_t signal_value(int rank, int peer, std::uint32_t index) const {
    const auto from = static_cast<std::size_t>(peer), to = static_cast<std::size_t>(rank);
    return signals_[(to * world_ranks_.size() + from) * kSignals + index].load(std::memory_order_acquire);
  }

  void open_window(int rank, std::uint32_t slot, void* base, std::size_t bytes) {
    check_index(slot, kWindows, "window");
    const MutexLock lock(mutex_);
    if (member(rank).cause != nullptr) throw *member(rank).cause;
    member(rank).windows[slot] = {static_cast<char*>(base), bytes};
  }
  void close_window(int rank, std::uint32_t slot) {
    const MutexLock lock(mutex_);
    if (slot < kWindows) member(rank).windows[slot] = {};
  }
  void* map_window(int peer, std::uint32_t slot) const {
    const MutexLock lock(mutex_);
    if (slot >= kWindows) return nullptr;
    const Window& window = member(peer).windows[slot];
    // Only memory that the hub keeps alive: any other may be freed while a peer still reads it after an abort.
    const auto after = blocks_.upper_bound(window.base);
    if (window.base == nullptr || after == blocks_.begin()) return nullptr;
    const auto& [block, bytes] = *std::prev(after);
    return window.base + window.bytes <= block + bytes ? window.base : nullptr;
  }
  // Copies out of (get) or into (put) the peer's window.
  void get(int rank, int peer, std::uint32_t slot, std::size_t offset, void* destination, std::size_t bytes) {
    const MutexLock lock(mutex_);
    const Window& from = window(rank, peer, slot, offset, bytes);
    if (bytes > 0) std::memcpy(destination, from.base + offset, bytes);
  }
  void put(int rank, int peer, std::uint32_t slot, std::size_t offset, const void* source, std::size_t bytes) {
    const MutexLock lock(mutex_);
    const Window& to = window(rank, peer, slot, offset, bytes);
    if (bytes > 0) std::memcpy(to.base + offset, source, bytes);
  }

  void* allocate(std::size_t bytes) {
    const std::size_t rounded = std::max(bytes + kAlignment - 1, kAlignment) / kAlignment * kAlignment;
    auto* block = static_cast<char*>(std::aligned_alloc(kAlignment, rounded));
    if (block == nullptr) throw std::bad_alloc();
    const MutexLock lock(mutex_);
    blocks_.emplace(block, rounded);
    return block;
  }
  void release(void* address) {
    const MutexLock lock(mutex_);
    if (blocks_.erase(static_cast<char*>(address)) == 0) return;
    if (broken_) {
      graveyard_.push_back(static_cast<char*>(address));  // a peer may not have noticed the abort yet
    } else {
      std::free(address);
    }
  }
  bool quiesced(int rank, const void* base, std::size_t bytes) const {
    const MutexLock lock(mutex_);
    const Member& self = member(rank);
    if (self.gone) return true;
    const auto shows = [&](const Window& window) { return sdk::overlaps(window.base, window.bytes, base, bytes); };
    return !self.operations.touches(base, bytes) && std::none_of(self.windows.begin(), self.windows.end(), shows);
  }

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
  void check_alive(int rank, int peer) const RODA_REQUIRES(mutex_) {
    if (member(rank).cause != nullptr) throw *member(rank).cause;
    if (peer < 0 || peer >= size() || peer == rank) {
      throw sdk::Failure(RODA_ERR_INVALID, "no peer " + std::to_string(peer) + " in group " + name_);
    }
  }
  sdk::Failure gone(int peer) const {
    return {RODA_ERR_PEER, who(peer) + " is no longer in group " + name_, world_ranks_[static_cast<std::size_t>(peer)]};
  }
  Operation& begin(int rank, int peer, std::uint64_t tag, const void* data, std::size_t bytes, bool is_send)
      RODA_REQUIRES(mutex_) {
    Operation& operation = member(rank).operations.take(data, bytes, tag);
    operation.is_send = is_send;
    operation.peer = peer;
    operation.started = Clock::now();
    return operation;
  }
  // What is due of the messages from that member; how many there were.
  int deliver(int rank, int from) RODA_REQUIRES(mutex_) {
    const std::vector<Operation*> awaited = box(rank, from).awaited();
    const auto now = Clock::now();
    int delivered = 0;
    for (Operation* receive : awaited) delivered += try_deliver(rank, *receive, now) ? 1 : 0;
    return delivered;
  }
  // The oldest message of the peer and tag, if it is due. Ends both sides.
  bool try_deliver(int rank, Operation& receive, Clock::time_point now) RODA_REQUIRES(mutex_) {
    Box& from = box(rank, receive.peer);
    const Message* message = from.find(receive.tag);
    if (message == nullptr || message->due > now) return false;
    sdk::RequestTable<Operation>& operations = member(rank).operations;
    if (message->bytes == receive.bytes) {
      const auto* data =
          message->sender != nullptr ? static_cast<const void*>(message->sender->data) : message->copy.data();
      if (message->bytes > 0) std::memcpy(receive.data, data, message->bytes);
      operations.finish(receive);
    } else {
      operations.finish(receive, {RODA_ERR_INVALID,
                                  who(receive.peer) + " sent " + std::to_string(message->bytes) + " bytes where " +
                                      std::to_string(receive.bytes) + " were expected (group " + name_ + ")",
                                  world_ranks_[static_cast<std::size_t>(receive.peer)]});
    }
    if (message->sender != nullptr) {
      member(receive.peer).operations.finish(*message->sender);
      ring(receive.peer);
    }
    from.withdraw(&receive);
    from.drop(message);
    ring(rank);
    return true;
  }
  void ring(int rank) RODA_REQUIRES(mutex_) {
    if (member(rank).context != nullptr) member(rank).context->ring();
  }
  // The member takes no further part: what it still offers from its own memory is taken back, short messages stay.
  void withdraw(int rank, const std::string& why) RODA_REQUIRES(mutex_) {
    Member& self = member(rank);
    if (self.gone) return;
    self.gone = true;
    for (Box& each : self.from) each = {};
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank) continue;
      Box& sent = box(peer, rank);
      std::vector<const Message*> offered;
      for (const Message& message : sent.early()) {
        if (message.sender != nullptr) offered.push_back(&message);
      }
      for (const Message* message : offered) sent.drop(message);
      end_orphans(peer, who(rank) + " " + why);
      ring(peer);
    }
  }
  // Ends the member's operations with peers that are gone, except receives whose message is still on its way.
  void end_orphans(int rank, const std::string& why) RODA_REQUIRES(mutex_) {
    Member& self = member(rank);
    self.operations.for_each_pending([&](Operation& operation) {
      mutex_.assert_held();
      Box& from = box(rank, operation.peer);
      if (!member(operation.peer).gone || (!operation.is_send && from.find(operation.tag) != nullptr)) return;
      from.withdraw(&operation);
      self.operations.finish(operation, {RODA_ERR_PEER, why, world_ranks_[static_cast<std::size_t>(operation.peer)]});
    });
  }
  void forget(int rank, const Operation& operation) RODA_REQUIRES(mutex_) {
    box(rank, operation.peer).withdraw(&operation);
    Box& sent = box(operation.peer, rank);
    sent.drop(sent.find(operation.tag, [&](const Message& message) { return message.sender == &operation; }));
  }
  static void check_index(std::uint32_t index, std::uint32_t count, const char* what) {
    if (index >= count) throw sdk::Failure(RODA_ERR_INVALID, std::string("no ") + what + " " + std::to_string(index));
  }
  const Window& window(int rank, int peer, std::uint32_t slot, std::size_t offset, std::size_t bytes) const
      RODA_REQUIRES(mutex_) {
    check_index(slot, kWindows, "window");
    check_alive(rank, peer);
    if (member(peer).gone) {
      throw gone(peer);
    }
    const Window& window = member(peer).windows[slot];
    if (window.base == nullptr || offset > window.bytes || bytes > window.bytes - offset) {
      throw sdk::Failure(RODA_ERR_INVALID, "bytes " + std::to_string(offset) + " to " + std::to_string(offset + bytes) +
                                               " lie outside window " + std::to_string(slot) + " of " + who(peer));
    }
    return window;
  }
  std::string who(int rank) const { return "rank " + std::to_string(world_ranks_[static_cast<std::size_t>(rank)]); }

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
