// One rank's membership in a loop group.
#pragma once

#include <roda/sdk/group_state.hpp>

#include "transports/loop/hub.h"

namespace roda::loop {

// The entries of the ABI; errors are thrown. abort() from any thread, the others from the rank's own.
class Group {
 public:
  using Request = Operation;

  Group(Context& context, const roda_group_desc& desc);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  bool test();
  void abort(const sdk::Failure& cause);
  bool is_quiet(const void* base, std::size_t bytes) const;

  std::int32_t send(int peer, std::uint64_t tag, const void* data, std::size_t bytes, const roda_memory*,
                    Request** request);
  std::int32_t receive(int peer, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory*,
                       Request** request);
  std::int32_t get(int peer, std::uint32_t slot, std::size_t offset, void* destination, std::size_t bytes, Request**);
  std::int32_t put(int peer, std::uint32_t slot, std::size_t offset, const void* source, std::size_t bytes, Request**);
  std::int32_t test(Request* request);

  std::uint32_t signal_count() const { return kSignals; }
  void signal(int peer, std::uint32_t index, std::uint64_t value);
  std::uint64_t signal_value(int peer, std::uint32_t index) const {
    return signal_of(state_.rank(), peer, index).load(std::memory_order_acquire);
  }

  std::uint32_t window_count() const { return kWindows; }
  void window_open(std::uint32_t slot, void* base, std::size_t bytes, const roda_memory*);
  void window_close(std::uint32_t slot);
  void* window_map(int peer, std::uint32_t slot) const;

  void memory_alloc(std::size_t bytes, roda_memory* memory);
  void memory_free(roda_memory* memory);

  // --- the context's ---
  // Delivers what has become due; the number of messages.
  int progress();
  // When the next message does that a receive waits for.
  Clock::time_point next_due() const;

 private:
  Member& member(int rank) const RODA_REQUIRES(hub_->mutex) { return hub_->members[static_cast<std::size_t>(rank)]; }
  Member& self() const RODA_REQUIRES(hub_->mutex) { return member(state_.rank()); }
  Box& box(int to, int from) const RODA_REQUIRES(hub_->mutex) {
    return member(to).from[static_cast<std::size_t>(from)];
  }
  std::atomic<std::uint64_t>& signal_of(int to, int from, std::uint32_t index) const {
    return hub_->signals[static_cast<std::size_t>(to * state_.size() + from) * kSignals + index];
  }
  void check_peer(int peer) const {
    if (state_.is_broken() || !state_.is_peer(peer)) state_.refuse(peer);
  }
  sdk::Failure gone(int peer) const { return state_.fault(RODA_ERR_PEER, peer, "is no longer in the group"); }
  Operation& begin(int peer, std::uint64_t tag, const void* data, std::size_t bytes, bool is_send)
      RODA_REQUIRES(hub_->mutex);
  // What is due of the messages to one member from another; how many there were.
  int deliver(int to, int from) RODA_REQUIRES(hub_->mutex);
  // The oldest message of the peer and tag, if it is due. Ends both sides.
  bool try_deliver(int to, Operation& receive, Clock::time_point now) RODA_REQUIRES(hub_->mutex);
  // This member takes no further part: what it still offers from its own memory is taken back, short messages stay.
  // `why` follows its name.
  void withdraw(const std::string& why) RODA_REQUIRES(hub_->mutex);
  // Ends a member's operations with peers that are gone, except receives whose message is still on its way.
  void end_orphans(int rank, const std::string& why) RODA_REQUIRES(hub_->mutex);
  const Window& window(int peer, std::uint32_t slot, std::size_t offset, std::size_t bytes) const
      RODA_REQUIRES(hub_->mutex);

  Context& context_;
  const std::shared_ptr<Hub> hub_;
  sdk::GroupState state_;
};

}  // namespace roda::loop
