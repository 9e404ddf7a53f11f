// An ordered set of ranks connected by RDMA: forming it, signals, windows, memory, and how it ends.
//
// Threads: as the ABI says, one at a time; abort() any. Throws sdk::Failure where it doesn't return a code.
#pragma once

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "transports/verbs/context.h"
#include "transports/verbs/link.h"
#include "transports/verbs/messages.h"
#include "transports/verbs/wires.h"

namespace roda::verbs {

template <typename Value>
inline Value read_at(const char* bytes, std::size_t index) {
  Value value;
  std::memcpy(&value, bytes + sizeof value * index, sizeof value);
  return value;
}

inline constexpr std::uint32_t kSignals = 128;
inline constexpr std::uint32_t kWindows = 64;

class Group {
 public:
  using Request = verbs::Request;

  Group(Context& context, const roda_group_desc& desc)
      : context_(context),
        state_("verbs", desc),
        messages_(context.known(), state_),
        peers_(static_cast<std::size_t>(desc.size)) {
    if (state_.size() == 1) {
      state_.set_formed();
    } else {
      say_hello();
    }
    context_.add(this);
  }
  ~Group() {
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

  bool test() {
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
  int progress() {
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
  void arm() {
    if (state_.works() && wires_ != nullptr) wires_->arm();
  }
  // While it is true silent peers are asked for a sign of life now and then.
  bool is_watching() const {
    if (!state_.works() || wires_ == nullptr) return false;
    if (messages_.has_pending() || wires_->awaits_reason() || now_ns() < watched_until_ns_) return true;
    return std::ranges::any_of(wires_->links(), &Link::has_unsent);
  }
  void ask_silent_peers() {
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
  // The queue pair or the whole port broke, in the device's words. Null: the port.
  void on_device_event(const Device& device, const ibv_qp* pair, const std::string& what) {
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

  // Any thread. The engine acts on it at its next call.
  void abort(const sdk::Failure& cause) {
    state_.abort(cause);
    context_.ring();
  }
  bool is_quiet(const void* base, std::size_t bytes) {
    act_on_abort();
    if (state_.is_broken()) return true;
    if (messages_.touches(base, bytes)) return false;
    return std::none_of(own_windows_.begin(), own_windows_.end(), [&](const Window& window) {
      return sdk::overlaps(base, bytes, reinterpret_cast<const void*>(window.address), window.bytes);
    });
  }

  std::int32_t send(int peer, std::uint64_t tag, const void* data, std::size_t bytes, const roda_memory* memory,
                    Request** request) {
    return messages_.send(admit(peer), tag, data, bytes, memory, request);
  }
  std::int32_t receive(int peer, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory* memory,
                       Request** request) {
    return messages_.receive(admit(peer, true), tag, data, bytes, memory, request);
  }
  std::int32_t get(int peer, std::uint32_t slot, std::size_t offset, void* to, std::size_t bytes, Request** request) {
    return move(Request::Kind::kGet, peer, slot, offset, to, bytes, request);
  }
  std::int32_t put(int peer, std::uint32_t slot, std::size_t offset, const void* from, std::size_t bytes,
                   Request** request) {
    return move(Request::Kind::kPut, peer, slot, offset, const_cast<void*>(from), bytes, request);
  }
  std::int32_t test(Request* request) {
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

  std::uint32_t signal_count() const { return kSignals; }
  void signal(int peer, std::uint32_t index, std::uint64_t value) {
    Link& link = admit(peer);
    state_.check_index(index, kSignals, "signal");
    link.tell({.kind = Kind::kSignal, .id = index, .tag = value});
  }
  std::uint64_t signal_value(int peer, std::uint32_t index) const {
    return peers_[static_cast<std::size_t>(peer)].signals[index];
  }

  std::uint32_t window_count() const { return kWindows; }
  // Over memory of memory_alloc or memory_register only: registering other memory for as long as a window is open would
  // outlast the memory.
  void window_open(std::uint32_t slot, void* base, std::size_t bytes, const roda_memory*) {
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
  void window_close(std::uint32_t slot) {
    if (slot < kWindows) own_windows_[slot] = {};
  }

  void memory_alloc(std::size_t bytes, roda_memory* memory) {
    if (state_.is_broken()) refuse(0);
    memory->kind = RODA_MEMORY_HOST;
    memory->device = -1;
    memory->address = context_.known().allocate(bytes, &memory->length);
    memory->owner = this;
  }
  void memory_free(roda_memory* memory) {
    if (context_.in_owner()) context_.known().free(memory->address);
  }
  void memory_register(roda_memory* memory) {
    if (state_.is_broken()) refuse(0);
    context_.known().add(*memory);
  }
  void memory_deregister(roda_memory* memory) {
    if (context_.in_owner()) context_.known().free(memory->address);
  }

  // --- what wires tell ---
  void on_record(Link& link, const Record& record, const std::byte* data) {
    Peer& peer = peers_[static_cast<std::size_t>(link.rank)];
    if (record.kind == Kind::kSignal && record.id < kSignals) {
      peer.signals[record.id] = record.tag;
    } else if (record.kind == Kind::kWindow && record.id < kWindows) {
      peer.windows[record.id] = {record.address, record.bytes, record.keys};
    } else {
      messages_.on_record(link, record, data);
    }
  }
  // The peer has written its part, on that rail, of the long message with this id.
  void on_written(Link& link, std::size_t rail, std::uint32_t id) { messages_.on_written(link, rail, id); }
  // One write or read of the request with this id has ended.
  void on_moved(Link& link, std::uint32_t id) { messages_.on_moved(link, id); }
  void on_left(Link& link) { messages_.end_those_of(link, state_.has_left(link.rank)); }

 private:
  // Each step returns at once; what takes many calls of the device is done a few at a time.
  //
  //   hello    what each member has and wants; the least of all is agreed
  //   open     queue pairs, with receives posted; their numbers and addresses are told
  //   connect  each to its peer's
  //   up       everybody is: nobody sends to a queue pair that isn't
  enum class Phase { kHello, kOpen, kConnect, kUp };
  struct Window {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::array<std::uint32_t, kMaxRails> keys{};
  };
  struct Peer {
    std::vector<std::uint64_t> signals = std::vector<std::uint64_t>(kSignals);
    std::vector<Window> windows = std::vector<Window>(kWindows);
  };

  bool form_on() {
    if (!gather_.test()) return false;
    switch (phase_) {
      case Phase::kHello:
        make_wires();
        phase_ = Phase::kOpen;
        return false;
      case Phase::kOpen:
        if (!wires_->open_some()) return false;
        publish_cards();
        phase_ = Phase::kConnect;
        return false;
      case Phase::kConnect:
        if (!connect_some()) return false;
        gather_ = state_.gather("verbs.up", nullptr, 0);
        phase_ = Phase::kUp;
        return false;
      case Phase::kUp:
        finish_forming();
    }
    return true;
  }
  void say_hello() {
    const Settings& settings = context_.settings();
    Hello hello;
    hello.host = context_.host_id();
    hello.eager_bytes = settings.eager_bytes;
    hello.stripe_bytes = settings.stripe_bytes;
    hello.credits = settings.credits;
    hello.rails = std::min(kMaxRails, static_cast<std::uint32_t>(context_.devices().size()));
    gather_ = state_.gather("verbs.hello", &hello, sizeof hello);
  }
  // With what all members can do. Ranks of one host begin with one device after the other.
  void make_wires() {
    auto least = gather_.value_as<Hello>(0);
    std::size_t before = 0;  // ranks of this host that come before this one
    for (int member = 0; member < state_.size(); ++member) {
      const auto hello = gather_.value_as<Hello>(member);
      if (hello.magic != kMagic || hello.version != kWireVersion) throw state_.other_version(member);
      least.eager_bytes = std::min(least.eager_bytes, hello.eager_bytes);
      least.stripe_bytes = std::min(least.stripe_bytes, hello.stripe_bytes);
      least.credits = std::min(least.credits, hello.credits);
      least.rails = std::min(least.rails, hello.rails);
      if (member < state_.rank() && hello.host == context_.host_id()) ++before;
    }
    std::vector<std::size_t> device_of_rail;
    for (std::size_t rail = 0; rail < least.rails; ++rail) {
      device_of_rail.push_back((before + rail) % context_.devices().size());
    }
    wires_ = std::make_unique<Wires>(context_.devices(), context_.settings(), least, std::move(device_of_rail), state_);
  }
  void publish_cards() {
    const std::size_t rails = wires_->plan().rails();
    std::vector<char> card;
    const auto append = [&](const auto& value) {
      const auto* bytes = reinterpret_cast<const char*>(&value);
      card.insert(card.end(), bytes, bytes + sizeof value);
    };
    for (std::size_t rail = 0; rail < rails; ++rail) append(wires_->plan().of(rail).address());
    for (int peer = 0; peer < state_.size(); ++peer) {
      for (std::size_t rail = 0; rail < rails; ++rail) {
        append(peer == state_.rank() ? QueuePair{} : wires_->link(peer).card(rail));
      }
    }
    gather_ = state_.gather("verbs.cards", card.data(), card.size());
  }
  bool connect_some() {
    const std::size_t rails = wires_->plan().rails();
    for (int i = 0; i < kLinksPerStep && connected_ < wires_->links().size(); ++i, ++connected_) {
      Link& link = wires_->links()[connected_];
      const char* card = gather_.value(link.rank);
      const char* pairs = card + sizeof(PortAddress) * rails;
      for (std::size_t rail = 0; rail < rails; ++rail) {
        auto address = read_at<PortAddress>(card, rail);
        address.device[sizeof address.device - 1] = 0;
        link.connect(rail, address, read_at<QueuePair>(pairs, static_cast<std::size_t>(state_.rank()) * rails + rail));
      }
    }
    return connected_ == wires_->links().size();
  }
  void finish_forming() {
    for (Link& link : wires_->links()) link.heard_ns = now_ns();
    messages_.use(wires_.get());
    wires_->set_listener(this);
  }

  // What every operation begins with: the group is sound and formed, the peer is there, or (`or_left`) has left.
  Link& admit(int peer, bool or_left = false) {
    if (!state_.works() || !state_.is_peer(peer)) refuse(peer);
    Link& link = wires_->link(peer);
    const bool is_there = link.life == Link::Life::kOpen || (or_left && link.life == Link::Life::kLeft);
    if (!is_there) refuse(peer);
    return link;
  }
  [[noreturn]] void refuse(int peer) {
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
  std::int32_t move(Request::Kind kind, int peer, std::uint32_t slot, std::size_t offset, void* data, std::size_t bytes,
                    Request** request) {
    Link& link = admit(peer);
    state_.check_index(slot, kWindows, "window");
    const Window& window = peers_[static_cast<std::size_t>(peer)].windows[slot];
    if (offset > window.bytes || bytes > window.bytes - offset) {
      throw state_.fault(RODA_ERR_INVALID, peer, "has no window there that is so long");
    }
    return messages_.move(kind, link, window.address + offset, window.keys, data, bytes, request);
  }
  // The engine's part of an abort: no device touches anything on behalf of the group any more, and what is pending
  // ends.
  void act_on_abort() {
    if (!state_.take_abort() || !context_.in_owner() || wires_ == nullptr) return;
    wires_->close();
    messages_.end_all(state_.cause());
  }

  Context& context_;
  sdk::GroupState state_;

  Phase phase_ = Phase::kHello;
  sdk::Allgather gather_;
  std::size_t connected_ = 0;

  std::unique_ptr<Wires> wires_;  // null while there is nothing to connect
  Messages messages_;
  std::vector<Peer> peers_;
  std::vector<Window> own_windows_ = std::vector<Window>(kWindows);

  std::uint64_t watched_until_ns_ = 0;
};

}  // namespace roda::verbs
