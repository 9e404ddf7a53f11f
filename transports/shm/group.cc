#include "transports/shm/group.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <utility>

namespace roda::shm {
namespace {

// MADV_POPULATE_WRITE, since Linux 5.14. Failing costs nothing but page faults later.
constexpr int kPopulate = 23;

}  // namespace

Group::~Group() {
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

int Group::progress() {
  if (!state_.is_formed()) return 0;
  act_on_abort();
  if (state_.is_broken()) return 0;
  const int handled = messages_.progress();
  return handled + look_at_peers();
}

bool Group::has_news() {
  if (!state_.is_formed()) return false;
  if (state_.is_broken()) return !state_.has_acted();
  return messages_.has_news() || look_at_peers();
}

void Group::set_sleeping(bool sleeping) {
  if (segment_) header().sleeping.store(sleeping ? 1 : 0, std::memory_order_release);
}

// A peer that aborted takes everybody with it, with its own cause.
bool Group::look_at_peers() {
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

void Group::peer_died(Peer& peer) {
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

void Group::abort(const sdk::Failure& cause) {
  state_.abort(cause);
  context_.ring();
}

void Group::refuse(int peer) {
  act_on_abort();
  state_.refuse(peer);
}

// The engine's part of an abort: ends what is pending, tells the peers, and promises not to touch them again.
void Group::act_on_abort() {
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

bool Group::is_quiet(const void* base, std::size_t bytes) {
  if (!state_.is_formed()) return true;
  if (!state_.is_broken()) {
    if (messages_.touches(base, bytes)) return false;
    return std::none_of(own_windows_, own_windows_ + kWindows, [&](const WindowEntry& window) {
      const auto* address = reinterpret_cast<const void*>(window.address.load(std::memory_order_relaxed));
      return sdk::overlaps(address, window.bytes.load(std::memory_order_relaxed), base, bytes);
    });
  }
  act_on_abort();
  // A peer that was killed while it was inside says nothing any more, and whoever asks here need not sleep in between.
  if (nobody_is_inside(base, bytes)) return true;
  return context_.find_deaths() && nobody_is_inside(base, bytes);
}

bool Group::nobody_is_inside(const void* base, std::size_t bytes) const {
  const bool ours = offset_of(base, bytes) != WindowEntry::kPrivate;
  return std::all_of(peers_.begin(), peers_.end(), [&](const Peer& peer) {
    if (peer.rank == state_.rank() || peer.dead) return true;
    // Our segment stays mapped at the peer: only its own word says that it has stopped. Private memory is safe as soon
    // as nobody is inside.
    if (ours) return peer.header->acknowledged.load(std::memory_order_acquire) != 0;
    return peer.its_access->busy.load(std::memory_order_seq_cst) == 0;
  });
}

std::uint64_t Group::offset_of(const void* base, std::size_t bytes) const {
  auto begin = static_cast<const std::byte*>(base);
  const std::byte* heap = segment_.data() + heap_offset_;
  const std::byte* end = segment_.data() + segment_.size();
  if (begin < heap || begin > end || bytes > static_cast<std::size_t>(end - begin)) return WindowEntry::kPrivate;
  return static_cast<std::uint64_t>(begin - segment_.data());
}

void Group::window_open(std::uint32_t slot, void* base, std::size_t bytes, const roda_memory*) {
  if (state_.is_broken()) refuse(state_.rank());
  state_.check_index(slot, kWindows, "window");
  WindowEntry& window = own_windows_[slot];
  window.address.store(reinterpret_cast<std::uint64_t>(base), std::memory_order_relaxed);
  window.offset.store(offset_of(base, bytes), std::memory_order_relaxed);
  window.bytes.store(bytes, std::memory_order_relaxed);
}

void Group::window_close(std::uint32_t slot) {
  if (slot < kWindows) own_windows_[slot].bytes.store(0, std::memory_order_relaxed);
}

void* Group::window_map(int rank, std::uint32_t slot) const {
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

std::uint32_t Group::line_latency(int peer) {
  if (!state_.works() || peer < 0 || peer >= state_.size() || peer == state_.rank()) return 0;
  const std::uint32_t given = context_.settings().line_ns;
  return given != 0 ? given : peers_[static_cast<std::size_t>(peer)].distance.latency();
}

void Group::memory_alloc(std::size_t bytes, roda_memory* memory) {
  if (state_.is_broken()) refuse(state_.rank());
  const std::size_t offset = heap_.take(bytes);
  if (offset == Heap::kNone) {
    throw sdk::Failure(RODA_ERR_NO_MEMORY, "shm: no address space for " + std::to_string(bytes) +
                                               " bytes in this group's segment of " + std::to_string(segment_.size()));
  }
  if (Status status = segment_.reserve(offset, bytes); !status.ok()) {
    heap_.give_back(offset, bytes);
    throw sdk::Failure(status.code(), "shm: " + status.message());
  }
  void* address = segment_.data() + offset;
  if (bytes > 0) (void)::madvise(address, bytes, kPopulate);
  *memory = roda_memory{sizeof(roda_memory), RODA_MEMORY_HOST, -1, 0, address, bytes, this};
}

void Group::memory_free(roda_memory* memory) {
  const std::uint64_t offset = offset_of(memory->address, memory->length);
  if (memory->owner != this || offset == WindowEntry::kPrivate) return;
  segment_.punch(offset, Heap::in_pages(memory->length));
  heap_.give_back(offset, memory->length);
  memory->address = memory->owner = nullptr;
  memory->length = 0;
}

}  // namespace roda::shm
