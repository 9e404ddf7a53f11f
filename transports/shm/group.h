// An ordered set of ranks of one host: forming it, signals, windows, memory, and how it ends. Messages are in
// messages.h.
//
// Threads: as the ABI says, one at a time; abort() any. Throws sdk::Failure where it doesn't return a code.
#pragma once

#include <sys/mman.h>
#include <roda/sdk/exchange.hpp>
#include <roda/sdk/group_state.hpp>

#include <cstring>
#include <utility>

#include "plugins/base/fd_mailbox.h"
#include "transports/shm/context.h"
#include "transports/shm/messages.h"
#include "transports/shm/segment.h"
#include "transports/shm/store_cost.h"

namespace roda::shm {

// MADV_POPULATE_WRITE, since Linux 5.14. Failing costs nothing but page faults later.
inline constexpr int kPopulate = 23;

class Group {
 public:
  using Request = shm::Request;

  // --- the entries of the ABI, see roda/sdk/transport.hpp ---
  Group(Context& context, const roda_group_desc& desc);
  ~Group() {
    context_.remove(this);
    if (!context_.in_owner()) {
      // The mappings aren't in a forked child; forget them.
      for (Peer& peer : peers_) peer.pidfd.reset();
      return;
    }
    act_on_abort();
    if (segment_) {
      if (header().state.load() == MemberState::kOpen) {
        header().state.store(MemberState::kLeft, std::memory_order_seq_cst);
      }
      header().acknowledged.store(1, std::memory_order_release);
      segment_.keep(heap_.taken());
    }
    for (Peer& peer : peers_) {
      if (peer.pidfd && !peer.dead) context_.unwatch(peer.pidfd.get());
      peer.ring_bell();
    }
  }
  bool test();
  void abort(const sdk::Failure& cause) {
    state_.abort(cause);
    context_.ring();
  }
  bool is_quiet(const void* base, std::size_t bytes) {
    if (!state_.is_formed()) return true;
    if (!state_.is_broken()) {
      if (messages_.touches(base, bytes)) return false;
      return std::none_of(own_windows_, own_windows_ + kWindows, [&](const WindowEntry& window) {
        const auto* address = reinterpret_cast<const void*>(window.address.load(std::memory_order_relaxed));
        return sdk::overlaps(address, window.bytes.load(std::memory_order_relaxed), base, bytes);
      });
    }
    act_on_abort();
    // A peer that was killed while it was inside says nothing any more, and whoever asks here need not sleep in
    // between.
    if (nobody_is_inside(base, bytes)) return true;
    return context_.find_deaths() && nobody_is_inside(base, bytes);
  }
  int progress() {
    if (!state_.is_formed()) return 0;
    act_on_abort();
    if (state_.is_broken()) return 0;
    const int handled = messages_.progress();
    return handled + look_at_peers();
  }
  // Is there anything that progress() would do?
  bool has_news() {
    if (!state_.is_formed()) return !state_.is_broken() && has_cards_ && hellos_.holds();
    if (state_.is_broken()) return !state_.has_acted();
    return messages_.has_news() || look_at_peers();
  }
  void set_sleeping(bool sleeping) {
    if (segment_) header().sleeping.store(sleeping ? 1 : 0, std::memory_order_release);
  }
  void peer_died(Peer& peer) {
    if (peer.dead) return;
    peer.dead = true;
    context_.unwatch(peer.pidfd.get());
    const MemberState state = peer.header->state.load(std::memory_order_acquire);
    if (state == MemberState::kLeft) {
      messages_.end_those_of(peer, state_.has_left(peer.rank, place_of(peer)));
    } else if (state == MemberState::kOpen) {
      abort(state_.fault(RODA_ERR_PEER, peer.rank, "died", place_of(peer)));
    }
  }

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
  void window_open(std::uint32_t slot, void* base, std::size_t bytes, const roda_memory*) {
    if (state_.is_broken()) refuse(state_.rank());
    state_.check_index(slot, kWindows, "window");
    WindowEntry& window = own_windows_[slot];
    window.address.store(reinterpret_cast<std::uint64_t>(base), std::memory_order_relaxed);
    window.offset.store(offset_of(base, bytes), std::memory_order_relaxed);
    window.bytes.store(bytes, std::memory_order_relaxed);
  }
  void window_close(std::uint32_t slot) {
    if (slot < kWindows) own_windows_[slot].bytes.store(0, std::memory_order_relaxed);
  }
  void* window_map(int rank, std::uint32_t slot) const {
    if (!state_.is_formed() || rank < 0 || rank >= state_.size() || slot >= kWindows) return nullptr;
    const Peer& peer = peers_[static_cast<std::size_t>(rank)];
    const WindowEntry& window = peer.windows[slot];
    const std::uint64_t offset = window.offset.load(std::memory_order_relaxed);
    const std::uint64_t bytes = window.bytes.load(std::memory_order_relaxed);
    if (bytes == 0) return nullptr;
    if (rank == state_.rank()) return reinterpret_cast<void*>(window.address.load(std::memory_order_relaxed));
    if (offset == WindowEntry::kPrivate || bytes > peer.segment_bytes || offset > peer.segment_bytes - bytes) {
      return nullptr;
    }
    return peer.base + offset;
  }

  std::uint32_t store_cost(int peer) {
    if (!state_.works() || peer < 0 || peer >= state_.size() || peer == state_.rank()) return 0;
    const std::uint32_t given = context_.settings().store_cost;
    return given != 0 ? given : store_cost_.percent(peer);
  }

  void memory_alloc(std::size_t bytes, roda_memory* memory) {
    if (state_.is_broken()) refuse(state_.rank());
    const std::size_t offset = heap_.take(bytes);
    if (offset == Heap::kNone) {
      throw sdk::Failure(RODA_ERR_NO_MEMORY, "shm: no address space for " + std::to_string(bytes) +
                                                 " bytes in this group's segment of " +
                                                 std::to_string(segment_.size()));
    }
    if (Status status = segment_.reserve(offset, bytes); !status.ok()) {
      heap_.give_back(offset, bytes);
      throw sdk::Failure(status.code(), "shm: " + status.message());
    }
    void* address = segment_.data() + offset;
    if (bytes > 0) (void)::madvise(address, bytes, kPopulate);
    *memory = roda_memory{sizeof(roda_memory), RODA_MEMORY_HOST, -1, 0, address, bytes, this};
  }
  void memory_free(roda_memory* memory) {
    const std::uint64_t offset = offset_of(memory->address, memory->length);
    if (memory->owner != this || offset == WindowEntry::kPrivate) return;
    segment_.punch(offset, Heap::in_pages(memory->length));
    heap_.give_back(offset, memory->length);
    memory->address = memory->owner = nullptr;
    memory->length = 0;
  }

  Context& context() { return context_; }
  const sdk::GroupState& state() const { return state_; }
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  std::vector<Peer>& peers() { return peers_; }
  SegmentHeader& header() { return *reinterpret_cast<SegmentHeader*>(segment_.data()); }
  WindowEntry& own_window(std::uint32_t slot) { return own_windows_[slot]; }
  // The offset of a range of our segment's heap, WindowEntry::kPrivate for any other memory.
  std::uint64_t offset_of(const void* base, std::size_t bytes) const {
    auto begin = static_cast<const std::byte*>(base);
    const std::byte* heap = segment_.data() + heap_offset_;
    const std::byte* end = segment_.data() + segment_.size();
    if (begin < heap || begin > end || bytes > static_cast<std::size_t>(end - begin)) return WindowEntry::kPrivate;
    return static_cast<std::uint64_t>(begin - segment_.data());
  }
  // After an abort.
  bool nobody_is_inside(const void* base, std::size_t bytes) const {
    const bool ours = offset_of(base, bytes) != WindowEntry::kPrivate;
    return std::all_of(peers_.begin(), peers_.end(), [&](const Peer& peer) {
      if (peer.rank == state_.rank() || peer.dead) return true;
      // Our segment stays mapped at the peer: only its own word says that it has stopped. Private memory is safe as
      // soon as nobody is inside.
      if (ours) return peer.header->acknowledged.load(std::memory_order_acquire) != 0;
      return peer.its_access->busy.load(std::memory_order_seq_cst) == 0;
    });
  }
  std::string place_of(const Peer& peer) const { return "pid " + std::to_string(peer.pid); }
  std::string describe(const Peer& peer) const { return state_.describe(peer.rank, place_of(peer)); }
  sdk::Failure outside_window(const Peer& peer) const {
    return state_.fault(RODA_ERR_INVALID, peer.rank, "has no window there that is so long", place_of(peer));
  }

 private:
  // What every member publishes through the exchange.
  struct Card {
    std::uint64_t magic;
    std::uint32_t version;
    std::int32_t rank;
    Nonce nonce;
    char mailbox[64];
    std::uint64_t room;  // address space that it leaves for the segments of all members
  };
  // What every member sends to every other, with the descriptors of its segment and its bell.
  struct Hello {
    std::int32_t rank;
    std::uint32_t reserved;
    Nonce nonce;
    std::uint64_t segment_bytes;
    std::uint64_t probe_address;  // of the nonce in the sender's private memory
  };

  // --- forming ---
  std::uint64_t most_of_a_segment() const;
  void create_segment();
  void fill_segment(const Layout& layout, std::uint32_t ring_bytes, std::size_t heap_bytes);
  void connect_self();
  Card card_of(int rank) const {
    Card card = cards_.value_as<Card>(rank);
    card.mailbox[sizeof card.mailbox - 1] = 0;
    return card;
  }
  bool exchange_cards() {
    if (!cards_.test()) return false;
    for (const Peer& peer : peers_) {
      const Card card = card_of(peer.rank);
      if (card.magic != kMagic || card.version != kLayoutVersion || card.rank != peer.rank) {
        throw state_.other_version(peer.rank);
      }
    }
    return true;
  }
  bool exchange_hellos();
  int take_hello(const FdMailbox::Message& message, std::vector<UniqueFd>& fds);
  void attach(Peer& peer, std::byte* base, std::size_t bytes);
  void try_cma(Peer& peer, std::uint64_t probe_address) {
    if (!context_.settings().cma) return;
    Nonce got{};
    const int error = peer.pid == 0 ? ESRCH : cma_read(peer.pid, &got, probe_address, sizeof got);
    peer.cma = error == 0 && got == peer.header->nonce;
    if (peer.cma) return;
    context_.log(RODA_LOG_INFO, "no cross-memory attach to " + describe(peer) +
                                    ", its private memory is copied twice: " +
                                    (error != 0 ? std::strerror(error) : "another process answered"));
  }
  std::vector<int> missing() const {
    if (!has_cards_) return cards_.missing();
    std::vector<int> ranks;
    for (const Peer& peer : peers_) {
      if (!hellos_.has_taken(peer.rank)) ranks.push_back(peer.rank);
    }
    return ranks;
  }
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
  [[noreturn]] void refuse(int peer) {
    act_on_abort();
    state_.refuse(peer);
  }
  // The engine's part of an abort: ends what is pending, tells the peers, and promises not to touch them again.
  void act_on_abort() {
    if (!state_.is_broken() || !context_.in_owner() || !state_.take_abort()) return;
    const sdk::Failure cause = state_.cause();
    messages_.end_all(cause);
    if (!segment_) return;
    header().cause.struct_size = sizeof header().cause;
    cause.fill(&header().cause);
    header().state.store(MemberState::kAborted, std::memory_order_seq_cst);
    header().acknowledged.store(1, std::memory_order_release);
    for (Peer& peer : peers_) peer.ring_bell();
  }
  // A peer that aborted takes everybody with it, with its own cause.
  bool look_at_peers() {
    for (Peer& peer : peers_) {
      if (peer.header->state.load(std::memory_order_acquire) != MemberState::kAborted) {
        continue;
      }
      roda_error cause = peer.header->cause;
      cause.message[sizeof cause.message - 1] = 0;
      abort(sdk::Failure(cause.code < 0 ? cause.code : static_cast<std::int32_t>(RODA_ERR_PEER), cause.message,
                         cause.rank));
      return true;
    }
    return false;
  }

  Context& context_;
  sdk::GroupState state_;
  std::vector<Peer> peers_;
  SharedSegment segment_;
  WindowEntry* own_windows_ = nullptr;
  std::size_t heap_offset_ = 0;
  Heap heap_;
  Messages messages_;
  StoreCost store_cost_;

  bool has_cards_ = false;  // of all members; hellos are next
  FdExchange hellos_;
  ForkGuard mailbox_guard_;
  ForkGuard segment_guard_;
  sdk::Allgather cards_;
  Nonce nonce_{};
};

}  // namespace roda::shm
