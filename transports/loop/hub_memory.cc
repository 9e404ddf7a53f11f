// Signals, windows and memory of a loop group.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "transports/loop/hub.h"

namespace roda::loop {
namespace {

constexpr std::size_t kAlignment = 64;

void check_index(std::uint32_t index, std::uint32_t count, const char* what) {
  if (index >= count) throw sdk::Failure(RODA_ERR_INVALID, std::string("no ") + what + " " + std::to_string(index));
}

}  // namespace

void Hub::signal(int rank, int peer, std::uint32_t index, std::uint64_t value) {
  check_index(index, kSignals, "signal");
  const MutexLock lock(mutex_);
  check_alive(rank, peer);
  const auto from = static_cast<std::size_t>(rank), to = static_cast<std::size_t>(peer);
  signals_[(to * world_ranks_.size() + from) * kSignals + index].store(value, std::memory_order_release);
  if (member(peer).context != nullptr) member(peer).context->ring();
}

std::uint64_t Hub::signal_value(int rank, int peer, std::uint32_t index) const {
  const auto from = static_cast<std::size_t>(peer), to = static_cast<std::size_t>(rank);
  return signals_[(to * world_ranks_.size() + from) * kSignals + index].load(std::memory_order_acquire);
}

void Hub::open_window(int rank, std::uint32_t slot, void* base, std::size_t bytes) {
  check_index(slot, kWindows, "window");
  const MutexLock lock(mutex_);
  if (member(rank).cause != nullptr) throw *member(rank).cause;
  member(rank).windows[slot] = {static_cast<char*>(base), bytes};
}

void Hub::close_window(int rank, std::uint32_t slot) {
  const MutexLock lock(mutex_);
  if (slot < kWindows) member(rank).windows[slot] = {};
}

void* Hub::map_window(int peer, std::uint32_t slot) const {
  const MutexLock lock(mutex_);
  if (slot >= kWindows) return nullptr;
  const Window& window = member(peer).windows[slot];
  // Only memory that the hub keeps alive: any other may be freed while a peer still reads it after an abort.
  const auto after = blocks_.upper_bound(window.base);
  if (window.base == nullptr || after == blocks_.begin()) return nullptr;
  const auto& [block, bytes] = *std::prev(after);
  return window.base + window.bytes <= block + bytes ? window.base : nullptr;
}

const Hub::Window& Hub::window(int rank, int peer, std::uint32_t slot, std::size_t offset, std::size_t bytes) const {
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

void Hub::get(int rank, int peer, std::uint32_t slot, std::size_t offset, void* destination, std::size_t bytes) {
  const MutexLock lock(mutex_);
  const Window& from = window(rank, peer, slot, offset, bytes);
  if (bytes > 0) std::memcpy(destination, from.base + offset, bytes);
}

void Hub::put(int rank, int peer, std::uint32_t slot, std::size_t offset, const void* source, std::size_t bytes) {
  const MutexLock lock(mutex_);
  const Window& to = window(rank, peer, slot, offset, bytes);
  if (bytes > 0) std::memcpy(to.base + offset, source, bytes);
}

void* Hub::allocate(std::size_t bytes) {
  const std::size_t rounded = std::max(bytes + kAlignment - 1, kAlignment) / kAlignment * kAlignment;
  auto* block = static_cast<char*>(std::aligned_alloc(kAlignment, rounded));
  if (block == nullptr) throw std::bad_alloc();
  const MutexLock lock(mutex_);
  blocks_.emplace(block, rounded);
  return block;
}

void Hub::release(void* address) {
  const MutexLock lock(mutex_);
  if (blocks_.erase(static_cast<char*>(address)) == 0) return;
  if (broken_) {
    graveyard_.push_back(static_cast<char*>(address));  // a peer may not have noticed the abort yet
  } else {
    std::free(address);
  }
}

bool Hub::quiesced(int rank, const void* base, std::size_t bytes) const {
  const MutexLock lock(mutex_);
  const Member& self = member(rank);
  if (self.gone) return true;
  const auto shows = [&](const Window& window) { return sdk::overlaps(window.base, window.bytes, base, bytes); };
  return !self.operations.touches(base, bytes) && std::none_of(self.windows.begin(), self.windows.end(), shows);
}

}  // namespace roda::loop
