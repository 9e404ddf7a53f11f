// Signals and windows of a group.
//
// A signal is a control message, so it wakes a sleeper, whatever carries it. Windows are told to a peer with the next
// signal to it, which is when the contract lets it use them: the key travels once per peer and opening, in front of the
// signal. What a rank wrote before a signal is visible with it, because a put has ended only when a flush said that it
// reached the peer's memory, and the messages of a pair are taken in their order.
#include <algorithm>
#include <string>

#include "transports/ucx/errors.h"
#include "transports/ucx/group.h"

namespace roda::ucx {

void Group::say(Peer& peer, Word word, std::uint64_t a, std::uint64_t b, std::uint64_t c,
                const std::vector<char>& data) {
  const ControlHeader header{word, state_.rank(), peer.control_sent++, a, b, c};
  outbox_.send(peer.endpoint, header, data.data(), data.size(), &peer.untaken);
}

std::int32_t Group::signal(int to, std::uint32_t index, std::uint64_t value) {
  Peer& peer = admit(to);
  if (index >= kSignals) throw sdk::Failure(RODA_ERR_INVALID, "ucx: no signal " + std::to_string(index));
  if (peer.untaken != 0) return RODA_AGAIN;
  announce_windows(peer);
  say(peer, Word::kSignal, index, value);
  return RODA_OK;
}

void Group::announce_windows(Peer& peer) {
  if (peer.announced_version == windows_version_) return;
  peer.announced_version = windows_version_;
  for (std::uint32_t slot = 0; slot < kWindows; ++slot) {
    const Window& window = windows_[slot];
    if (peer.announced[slot] == window.version) continue;
    peer.announced[slot] = window.version;
    say(peer, Word::kWindow, slot, reinterpret_cast<std::uint64_t>(window.base), window.bytes, window.key);
  }
}

void Group::window_open(std::uint32_t slot, void* base, std::size_t bytes, const roda_memory* memory) {
  if (!state_.works()) refuse(state_.rank());
  if (slot >= kWindows) throw sdk::Failure(RODA_ERR_INVALID, "ucx: no window " + std::to_string(slot));
  window_close(slot);
  if (bytes == 0) return;
  Window& window = windows_[slot];
  ucp_mem_h registered = memories_->find(base, bytes);
  if (registered == nullptr) {
    const int32_t kind = memory == nullptr ? static_cast<int32_t>(RODA_MEMORY_HOST) : memory->kind;
    registered = window.own = library_->map(&base, bytes, memory_type(*library_, kind));
  }
  window.key = library_->pack_key(registered);
  window.base = base;
  window.bytes = bytes;
}

void Group::window_close(std::uint32_t slot) {
  if (slot >= kWindows || library_ == nullptr) return;
  Window& window = windows_[slot];
  if (window.own != nullptr) library_->unmap(window.own);
  window = Window{.version = ++windows_version_};
}

// Called by UCX's progress.
void Group::window_arrived(Peer& peer, const ControlHeader& header, const char* key, std::size_t bytes) {
  if (header.a >= kWindows) return;
  RemoteWindow& window = peer.windows[header.a];
  if (window.key != nullptr) ucp_rkey_destroy(window.key);
  window = {header.b, header.c, nullptr};
  if (bytes == 0) return;
  check(ucp_ep_rkey_unpack(peer.endpoint, key, &window.key), "the key of a window of " + describe(peer));
}

RemoteWindow& Group::remote_window(Peer& peer, std::uint32_t slot, std::size_t offset, std::size_t bytes) {
  if (slot >= kWindows) throw sdk::Failure(RODA_ERR_INVALID, "ucx: no window " + std::to_string(slot));
  RemoteWindow& window = peer.windows[slot];
  if (window.key == nullptr) {
    throw sdk::Failure(RODA_ERR_PRECONDITION,
                       "ucx: " + describe(peer) + " has sent no signal since it opened window " + std::to_string(slot));
  }
  if (offset > window.bytes || bytes > window.bytes - offset) {
    throw sdk::Failure(RODA_ERR_INVALID, "ucx: outside the " + std::to_string(window.bytes) + " bytes that " +
                                             describe(peer) + " has open in window " + std::to_string(slot));
  }
  return window;
}

void Group::memory_alloc(std::size_t bytes, roda_memory* memory) {
  if (!state_.works()) refuse(state_.rank());
  memories_->allocate(bytes, memory);
}

void Group::memory_free(roda_memory* memory) { memories_->free(memory); }

void Group::memory_register(roda_memory* memory) {
  if (!state_.works()) refuse(state_.rank());
  memories_->add(*memory);
}

void Group::memory_deregister(roda_memory* memory) { memories_->remove(*memory); }

}  // namespace roda::ucx
