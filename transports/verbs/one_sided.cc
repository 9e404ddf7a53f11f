// Group: signals, windows, and memory.
#include <algorithm>

#include "transports/verbs/group.h"

namespace roda::verbs {

void Group::on_record(Link& link, const Record& record, const std::byte* data) {
  Peer& peer = peers_[static_cast<std::size_t>(link.rank)];
  if (record.kind == Kind::kSignal && record.id < kSignals) {
    peer.signals[record.id] = record.tag;
  } else if (record.kind == Kind::kWindow && record.id < kWindows) {
    peer.windows[record.id] = {record.address, record.bytes, record.keys};
  } else {
    messages_.on_record(link, record, data);
  }
}

void Group::signal(int peer, std::uint32_t index, std::uint64_t value) {
  Link& link = admit(peer);
  if (index >= kSignals) throw sdk::Failure(RODA_ERR_INVALID, "verbs: no such signal");
  Record record;
  record.kind = Kind::kSignal;
  record.id = index;
  record.tag = value;
  link.tell(record);
}

void Group::window_open(std::uint32_t slot, void* base, std::size_t bytes, const roda_memory*) {
  if (!state_.works()) refuse(0);
  if (slot >= kWindows) throw sdk::Failure(RODA_ERR_INVALID, "verbs: no such window");
  const Registration* memory = context_.known().find(base, bytes);
  if (memory == nullptr) {
    throw sdk::Failure(RODA_ERR_INVALID, "verbs: a window needs memory of memory_alloc or memory_register");
  }
  Window& window = own_windows_[slot];
  window.address = reinterpret_cast<std::uintptr_t>(base);
  window.bytes = bytes;
  if (wires_ == nullptr) return;
  Record record;
  record.kind = Kind::kWindow;
  record.id = slot;
  record.address = window.address;
  record.bytes = bytes;
  for (std::size_t rail = 0; rail < wires_->plan().device.size(); ++rail) {
    record.keys[rail] = memory->remote_key(wires_->plan().device[rail]);
  }
  for (const auto& link : wires_->links()) {
    if (link != nullptr && link->life == Link::Life::kOpen) link->tell(record);
  }
}

void Group::window_close(std::uint32_t slot) {
  if (slot < kWindows) own_windows_[slot] = {};
}

std::int32_t Group::get(int peer, std::uint32_t slot, std::size_t offset, void* to, std::size_t bytes,
                        Request** request) {
  return move(Request::Kind::kGet, peer, slot, offset, to, bytes, request);
}

std::int32_t Group::put(int peer, std::uint32_t slot, std::size_t offset, const void* from, std::size_t bytes,
                        Request** request) {
  return move(Request::Kind::kPut, peer, slot, offset, const_cast<void*>(from), bytes, request);
}

std::int32_t Group::move(Request::Kind kind, int peer, std::uint32_t slot, std::size_t offset, void* data,
                         std::size_t bytes, Request** request) {
  Link& link = admit(peer);
  if (slot >= kWindows) throw sdk::Failure(RODA_ERR_INVALID, "verbs: no such window");
  const Window& window = peers_[static_cast<std::size_t>(peer)].windows[slot];
  if (offset > window.bytes || bytes > window.bytes - offset) {
    throw sdk::Failure(RODA_ERR_INVALID,
                       "verbs: outside the window that rank " + std::to_string(link.world_rank) + " has open",
                       link.world_rank);
  }
  return messages_.move(kind, link, window.address + offset, window.keys, data, bytes, request);
}

void Group::memory_alloc(std::size_t bytes, roda_memory* memory) {
  if (state_.is_broken()) refuse(0);
  memory->kind = RODA_MEMORY_HOST;
  memory->device = -1;
  memory->address = context_.known().allocate(bytes, &memory->length);
  memory->owner = this;
}

void Group::memory_free(roda_memory* memory) {
  if (context_.in_owner()) context_.known().free(memory->address);
}

void Group::memory_register(roda_memory* memory) {
  if (state_.is_broken()) refuse(0);
  context_.known().add(*memory);
}

void Group::memory_deregister(roda_memory* memory) {
  if (context_.in_owner()) context_.known().free(memory->address);
}

}  // namespace roda::verbs
