// An ordered set of ranks of one host: forming it, signals, windows, memory, and how it ends. Messages are in
// messages.h.
//
// Threads: as the ABI says, one at a time; abort() any. Throws sdk::Failure where it doesn't return a code.
#pragma once

#include <roda/sdk/exchange.hpp>
#include <roda/sdk/group_state.hpp>

#include "plugins/base/fd_mailbox.h"
#include "transports/shm/context.h"
#include "transports/shm/messages.h"
#include "transports/shm/segment.h"

namespace roda::shm {

class Group {
 public:
  using Request = shm::Request;

  // --- the entries of the ABI, see roda/sdk/transport.hpp ---
  Group(Context& context, const roda_group_desc& desc);
  ~Group();
  bool test();
  void abort(const sdk::Failure& cause);
  bool is_quiet(const void* base, std::size_t bytes);
  int progress();
  // Is there anything that progress() would do?
  bool has_news();
  void set_sleeping(bool sleeping);
  void peer_died(Peer& peer);

  std::int32_t send(int peer, std::uint64_t tag, const void* data, std::size_t bytes, const roda_memory*,
                    Request** request) {
    return messages_.send(admit(peer), tag, data, bytes, request);
  }
  std::int32_t receive(int peer, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory*,
                       Request** request) {
    return messages_.receive(admit(peer), tag, data, bytes, request);
  }
  std::int32_t get(int peer, std::uint32_t slot, std::size_t offset, void* to, std::size_t bytes, Request** request) {
    return messages_.move(Request::Kind::kGet, admit(peer, slot), slot, offset, to, bytes, request);
  }
  std::int32_t put(int peer, std::uint32_t slot, std::size_t offset, const void* from, std::size_t bytes,
                   Request** request) {
    return messages_.move(Request::Kind::kPut, admit(peer, slot), slot, offset, const_cast<void*>(from), bytes,
                          request);
  }
  std::int32_t test(Request* request) {
    act_on_abort();  // ends the request
    return messages_.test(request);
  }

  std::uint32_t signal_count() const { return kSignals; }
  void signal(int peer, std::uint32_t index, std::uint64_t value) {
    Peer& to = admit(peer);
    state_.check_index(index, kSignals, "signal");
    to.signals_out[index].store(value, std::memory_order_release);
    to.wake();
  }
  std::uint64_t signal_value(int peer, std::uint32_t index) const {
    return peers_[static_cast<std::size_t>(peer)].signals_in[index].load(std::memory_order_acquire);
  }

  std::uint32_t window_count() const { return kWindows; }
  void window_open(std::uint32_t slot, void* base, std::size_t bytes, const roda_memory* memory);
  void window_close(std::uint32_t slot);
  void* window_map(int peer, std::uint32_t slot) const;

  std::uint32_t line_latency(int peer);

  void memory_alloc(std::size_t bytes, roda_memory* memory);
  void memory_free(roda_memory* memory);

  Context& context() { return context_; }
  const sdk::GroupState& state() const { return state_; }
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  std::vector<Peer>& peers() { return peers_; }
  SegmentHeader& header() { return *reinterpret_cast<SegmentHeader*>(segment_.data()); }
  WindowEntry& own_window(std::uint32_t slot) { return own_windows_[slot]; }
  // The offset of a range of our segment's heap, WindowEntry::kPrivate for any other memory.
  std::uint64_t offset_of(const void* base, std::size_t bytes) const;
  bool nobody_is_inside(const void* base, std::size_t bytes) const;  // after an abort
  std::string place_of(const Peer& peer) const { return "pid " + std::to_string(peer.pid); }
  std::string describe(const Peer& peer) const { return state_.describe(peer.rank, place_of(peer)); }
  sdk::Failure outside_window(const Peer& peer) const {
    return state_.fault(RODA_ERR_INVALID, peer.rank, "has no window there that is so long", place_of(peer));
  }

 private:
  struct Card;
  struct Hello;

  // forming.cc
  void create_segment();
  void fill_segment(const Layout& layout, std::uint32_t ring_bytes, std::size_t heap_bytes);
  void connect_self();
  Card card_of(int rank) const;
  bool exchange_cards();
  bool exchange_hellos();
  void send_hello(Peer& peer);
  void take_hello(const FdMailbox::Message& message, std::vector<UniqueFd>& fds);
  void attach(Peer& peer, std::byte* base, std::size_t bytes);
  void try_cma(Peer& peer, std::uint64_t probe_address);
  std::vector<int> missing() const;
  void watch_processes();

  // What every operation begins with: the group is sound and formed, the peer and the window are there.
  Peer& admit(int peer) {
    if (!state_.works() || peer < 0 || peer >= state_.size()) refuse(peer);
    return peers_[static_cast<std::size_t>(peer)];
  }
  Peer& admit(int peer, std::uint32_t slot) {
    state_.check_index(slot, kWindows, "window");
    return admit(peer);
  }
  [[noreturn]] void refuse(int peer);
  void act_on_abort();
  bool look_at_peers();

  Context& context_;
  sdk::GroupState state_;
  std::vector<Peer> peers_;
  SharedSegment segment_;
  WindowEntry* own_windows_ = nullptr;
  std::size_t heap_offset_ = 0;
  Heap heap_;
  Messages messages_;

  bool has_cards_ = false;  // of all members; hellos are next
  FdMailbox mailbox_;
  ForkGuard mailbox_guard_;
  ForkGuard segment_guard_;
  sdk::Allgather cards_;
  Nonce nonce_{};
};

}  // namespace roda::shm
