// An ordered set of ranks of one host: forming it, signals, windows, memory, and how it ends. Messages are in
// messages.h.
//
// Threads: as the ABI says, one at a time; abort() any. Throws sdk::Failure where it doesn't return a code.
#pragma once

#include <roda/abi/transport.h>
#include <roda/sdk/error.hpp>
#include <roda/sdk/exchange.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plugins/base/fd_mailbox.h"
#include "plugins/base/shared_segment.h"
#include "transports/shm/context.h"
#include "transports/shm/heap.h"
#include "transports/shm/layout.h"
#include "transports/shm/messages.h"
#include "transports/shm/peer.h"

namespace roda::shm {

class Group {
 public:
  Group(Context& context, const roda_group_desc& desc);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // RODA_IN_PROGRESS while forming, RODA_OK, or throws the cause: of a failed forming, or later of the abort.
  int test();
  int progress();
  // Is there anything that progress() would do?
  bool has_news();
  void set_sleeping(bool sleeping);
  void peer_died(Peer& peer);

  // Any thread. The engine acts on it at its next call.
  void abort(const sdk::Failure& cause);
  // Fills `error` and returns the code of the cause; RODA_OK while the group is sound.
  int check(roda_error* error) { return broken_.load(std::memory_order_acquire) ? end_with_cause(error) : RODA_OK; }
  bool quiesced(const void* base, std::size_t bytes);

  // --- signals ---
  int signal(int peer, std::uint32_t index, std::uint64_t value, roda_error* error) {
    if (broken_.load(std::memory_order_relaxed)) return check(error);
    Peer& to = peers_[static_cast<std::size_t>(peer)];
    to.signals_out[index].store(value, std::memory_order_release);
    to.wake();
    return RODA_OK;
  }
  std::uint64_t signal_value(int peer, std::uint32_t index) const {
    return peers_[static_cast<std::size_t>(peer)].signals_in[index].load(std::memory_order_acquire);
  }

  // --- windows ---
  void window_open(std::uint32_t slot, void* base, std::size_t bytes);
  void window_close(std::uint32_t slot);
  void* window_map(int peer, std::uint32_t slot) const;

  // --- memory ---
  void memory_alloc(std::size_t bytes, roda_memory* memory);
  void memory_free(roda_memory* memory);

  Messages& messages() { return messages_; }
  Context& context() { return context_; }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(peers_.size()); }
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  std::vector<Peer>& peers() { return peers_; }
  SegmentHeader& header() { return *reinterpret_cast<SegmentHeader*>(segment_.data()); }
  WindowEntry& own_window(std::uint32_t slot) { return own_windows_[slot]; }
  // The offset of a range of our segment's heap, WindowEntry::kPrivate for any other memory.
  std::uint64_t offset_of(const void* base, std::size_t bytes) const;
  std::uint64_t timeout_ns() const { return timeout_ns_; }
  bool is_formed() const { return phase_ == Phase::kFormed; }
  bool is_broken() const { return broken_.load(std::memory_order_acquire); }
  // "rank 3 of group 'world'", with the world rank.
  std::string describe(const Peer& peer) const;

 private:
  enum class Phase { kCards, kHellos, kFormed };
  struct Card;
  struct Hello;

  // forming.cc
  void create_segment();
  void connect_self();
  bool exchange_cards();
  bool exchange_hellos();
  void send_hello(Peer& peer);
  void take_hello(const FdMailbox::Message& message, std::vector<UniqueFd>& fds);
  void attach(Peer& peer, std::byte* base, std::size_t bytes);
  void try_cma(Peer& peer, std::uint64_t probe_address);
  void check_deadline() const;
  void finish_forming();

  int end_with_cause(roda_error* error);
  void act_on_abort();
  bool look_at_peers();

  Context& context_;
  const std::string name_;
  const int rank_;
  const std::uint64_t timeout_ns_;
  std::vector<Peer> peers_;
  SharedSegment segment_;
  WindowEntry* own_windows_ = nullptr;
  std::size_t heap_offset_ = 0;
  Heap heap_;
  Messages messages_;

  std::atomic<bool> broken_{false};
  sdk::FirstCause cause_;
  bool acted_ = false;  // on the abort

  Phase phase_ = Phase::kCards;
  std::uint64_t started_ns_;
  FdMailbox mailbox_;
  ForkGuard mailbox_guard_;
  ForkGuard segment_guard_;
  sdk::Allgather cards_;
  Nonce nonce_{};
  std::vector<bool> hello_sent_;
  std::vector<bool> hello_taken_;
};

std::uint64_t now_ns();

}  // namespace roda::shm
