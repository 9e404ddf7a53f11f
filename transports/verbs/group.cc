#include "transports/verbs/group.h"

#include <chrono>
#include <thread>
#include <utility>

namespace roda::verbs {

Group::Group(Context& context, const roda_group_desc& desc)
    : context_(context),
      state_("verbs", desc),
      exchange_(desc.exchange),
      messages_(context.known(), state_),
      peers_(static_cast<std::size_t>(desc.size)) {
  if (state_.size() == 1) {
    state_.set_formed();
  } else {
    say_hello();
  }
  context_.add(this);
}

Group::~Group() {
  context_.remove(this);
  if (!context_.in_owner()) {
    messages_.forget();
    static_cast<void>(wires_.release());
    return;
  }
  act_on_abort();
  if (wires_ == nullptr || !state_.works()) return;
  messages_.end_all({RODA_ERR_ABORTED, state_.text("was destroyed")});
  wires_->set_listener(nullptr);
  wires_->say_bye();
  context_.linger(std::move(wires_));
}

bool Group::test() {
  if (!context_.in_owner()) refuse(0);
  act_on_abort();
  // Asked again and again by those that only watch signals.
  if (state_.works()) watched_until_ns_ = now_ns() + 2 * context_.probe_ns();
  const auto late = [this] { return state_.late(gather_.missing()); };
  const auto fail = [this](const sdk::Failure& failure) {
    abort(failure);
    act_on_abort();
  };
  return state_.form([this] { return form_on(); }, late, fail);
}

int Group::progress() {
  if (!state_.is_formed() || wires_ == nullptr) return 0;
  act_on_abort();
  if (state_.is_broken()) return 0;
  try {
    const int handled = wires_->progress();
    return handled + messages_.progress();
  } catch (const sdk::Failure& failure) {
    abort(failure);
  } catch (const std::exception& failure) {
    abort({RODA_ERR_UNKNOWN, state_.text(failure.what())});
  }
  return 1;
}

void Group::arm() {
  if (state_.works() && wires_ != nullptr) wires_->arm();
}

bool Group::is_watching() const {
  if (!state_.works() || wires_ == nullptr) return false;
  if (messages_.has_pending() || wires_->awaits_reason() || now_ns() < watched_until_ns_) return true;
  return std::ranges::any_of(wires_->links(), &Link::has_unsent);
}

void Group::ask_silent_peers() {
  if (!is_watching()) return;
  const std::uint64_t now = now_ns();
  try {
    for (Link& link : wires_->links()) {
      if (now - link.heard_ns >= context_.probe_ns()) link.probe();
    }
  } catch (const sdk::Failure& failure) {
    abort(failure);
  }
}

void Group::on_device_event(const Device& device, const ibv_qp* pair, const std::string& what) {
  if (wires_ == nullptr || state_.is_broken()) return;
  const RailPlan& plan = wires_->plan();
  const bool is_used =
      std::ranges::any_of(plan.device, [&](std::size_t index) { return (*plan.devices)[index].get() == &device; });
  std::string peers;
  for (const Link& link : wires_->links()) {
    if (link.life == Link::Life::kLeft || (pair != nullptr && !link.owns(pair))) continue;
    peers += (peers.empty() ? "" : ", ") + std::to_string(link.world_rank);
  }
  if (!is_used || peers.empty()) return;
  abort({RODA_ERR_SYSTEM,
         "verbs: " + device.name() + ", a way from rank " + std::to_string(state_.world_rank(state_.rank())) +
             " to rank " + peers + ": " + what +
             "; see to the device and its link, or leave it out with RODA_VERBS_DEVICES",
         state_.world_rank(state_.rank())});
}

void Group::abort(const sdk::Failure& cause) {
  state_.abort(cause);
  context_.wake();
}

// The engine's part of an abort: no device touches anything on behalf of the group any more, and what is pending ends.
void Group::act_on_abort() {
  if (!state_.take_abort() || !context_.in_owner() || wires_ == nullptr) return;
  wires_->close();
  messages_.end_all(state_.cause());
}

bool Group::is_quiet(const void* base, std::size_t bytes) {
  act_on_abort();
  if (state_.is_broken()) return true;
  if (messages_.touches(base, bytes)) return false;
  return std::none_of(own_windows_.begin(), own_windows_.end(), [&](const Window& window) {
    return sdk::overlaps(base, bytes, reinterpret_cast<const void*>(window.address), window.bytes);
  });
}

std::int32_t Group::test(Request* request) {
  act_on_abort();  // ends the request
  try {
    return messages_.test(request);
  } catch (const sdk::Failure& failure) {
    if (failure.code() != RODA_ERR_TIMEOUT || state_.is_broken()) throw;
    abort(failure);
  }
  act_on_abort();
  return messages_.test(request);
}

Link& Group::admit(int peer, bool or_left) {
  if (!state_.works() || !state_.is_peer(peer)) refuse(peer);
  Link& link = wires_->link(peer);
  const bool is_there = link.life == Link::Life::kOpen || (or_left && link.life == Link::Life::kLeft);
  if (!is_there) refuse(peer);
  return link;
}

void Group::refuse(int peer) {
  if (!context_.in_owner()) {
    throw sdk::Failure(RODA_ERR_PRECONDITION, state_.text("was formed by the process that this one was forked from"));
  }
  // What broke the connection may still have to be told by the device, a moment later.
  while (state_.works() && wires_ != nullptr && wires_->awaits_reason()) {
    context_.read_device_events();
    progress();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  act_on_abort();
  if (!state_.works() || !state_.is_peer(peer)) state_.refuse(peer);
  if (wires_->link(peer).life == Link::Life::kLeft) throw state_.has_left(peer);
  throw state_.fault(RODA_ERR_PEER, peer, "is lost: the connection to it broke");
}

// Group: signals, windows, and memory.
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
  state_.check_index(index, kSignals, "signal");
  link.tell({.kind = Kind::kSignal, .id = index, .tag = value});
}

void Group::window_open(std::uint32_t slot, void* base, std::size_t bytes, const roda_memory*) {
  if (!state_.works()) refuse(0);
  state_.check_index(slot, kWindows, "window");
  const Registration* memory = context_.known().find(base, bytes);
  if (memory == nullptr) {
    throw sdk::Failure(RODA_ERR_INVALID, "verbs: a window needs memory of memory_alloc or memory_register");
  }
  Window& window = own_windows_[slot];
  window.address = reinterpret_cast<std::uintptr_t>(base);
  window.bytes = bytes;
  if (wires_ == nullptr) return;
  Record record{.kind = Kind::kWindow, .id = slot, .bytes = bytes, .address = window.address};
  for (std::size_t rail = 0; rail < wires_->plan().rails(); ++rail) {
    record.keys[rail] = memory->remote_key(wires_->plan().device[rail]);
  }
  for (Link& link : wires_->links()) {
    if (link.life == Link::Life::kOpen) link.tell(record);
  }
}

void Group::window_close(std::uint32_t slot) {
  if (slot < kWindows) own_windows_[slot] = {};
}

std::int32_t Group::move(Request::Kind kind, int peer, std::uint32_t slot, std::size_t offset, void* data,
                         std::size_t bytes, Request** request) {
  Link& link = admit(peer);
  state_.check_index(slot, kWindows, "window");
  const Window& window = peers_[static_cast<std::size_t>(peer)].windows[slot];
  if (offset > window.bytes || bytes > window.bytes - offset) {
    throw state_.fault(RODA_ERR_INVALID, peer, "has no window there that is so long");
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
