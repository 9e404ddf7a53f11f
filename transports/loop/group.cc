#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <roda/sdk/group_state.hpp>
#include <roda/sdk/transport.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include "transports/loop/hub.h"

namespace roda::loop {

constexpr std::size_t kEagerBytes = 4096;
constexpr std::size_t kAlignment = 64;

// One rank's membership in a loop group.
//
// The entries of the ABI; errors are thrown. abort() from any thread, the others from the rank's own.
class Group {
 public:
  using Request = Operation;

  Group(Context& context, const roda_group_desc& desc)
      : context_(context), hub_(Hub::find(desc)), state_("loop", desc) {
    const MutexLock lock(hub_->mutex);
    if (std::exchange(self().joined, true)) {
      throw sdk::Failure(RODA_ERR_INVALID, state_.text("was joined twice by rank " + std::to_string(state_.rank())));
    }
    self().context = &context;
    for (Member& other : hub_->members) other.ring();
    context_.add(this);
  }
  ~Group() {
    context_.remove(this);
    const MutexLock lock(hub_->mutex);
    withdraw("has left the group");
    std::fill(self().windows.begin(), self().windows.end(), Window{});
    self().context = nullptr;
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  bool test() {
    std::vector<int> missing;
    const auto step = [&] {
      const MutexLock lock(hub_->mutex);
      for (int rank = 0; rank < state_.size(); ++rank) {
        if (!member(rank).joined) missing.push_back(rank);
      }
      return missing.empty();
    };
    return state_.form(
        step, [&] { return state_.late(missing); }, [this](const sdk::Failure& why) { abort(why); });
  }
  void abort(const sdk::Failure& cause) {
    if (!state_.abort(cause)) return;
    const MutexLock lock(hub_->mutex);
    hub_->is_broken = true;
    sdk::RequestTable<Operation>& operations = self().operations;
    operations.for_each_pending([&](Operation& operation) { operations.finish(operation, cause); });
    self().ring();
    withdraw(std::string("aborted: ") + cause.what());
  }
  bool is_quiet(const void* base, std::size_t bytes) const {
    const MutexLock lock(hub_->mutex);
    if (self().gone) return true;
    const auto shows = [&](const Window& window) { return sdk::overlaps(window.base, window.bytes, base, bytes); };
    return !self().operations.touches(base, bytes) && std::none_of(self().windows.begin(), self().windows.end(), shows);
  }

  std::int32_t send(int peer, std::uint64_t tag, const void* data, std::size_t bytes, const roda_memory*,
                    Request** request) {
    if (context_.count_operation()) return RODA_AGAIN;
    const MutexLock lock(hub_->mutex);
    check_peer(peer);
    if (member(peer).gone) throw gone(peer);
    Message& message = box(peer, state_.rank()).keep(tag);
    message.bytes = bytes;
    message.due = Clock::now() + context_.delay();
    Operation* sending = nullptr;
    if (bytes <= kEagerBytes) {
      const char* text = static_cast<const char*>(data);
      message.copy.assign(text, text + bytes);
    } else {
      sending = message.sender = &begin(peer, tag, data, bytes, true);
    }
    deliver(peer, state_.rank());
    member(peer).ring();  // also for a delayed message: the sleeper must set its timer
    return sending != nullptr ? self().operations.hand_out(*sending, request) : RODA_OK;
  }
  std::int32_t receive(int peer, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory*,
                       Request** request) {
    if (context_.count_operation()) return RODA_AGAIN;
    const MutexLock lock(hub_->mutex);
    check_peer(peer);
    Box& from = box(state_.rank(), peer);
    if (member(peer).gone && from.find(tag) == nullptr) throw gone(peer);
    Operation& receiving = begin(peer, tag, data, bytes, false);
    from.await(&receiving);
    deliver(state_.rank(), peer);
    return self().operations.hand_out(receiving, request);
  }
  std::int32_t get(int peer, std::uint32_t slot, std::size_t offset, void* destination, std::size_t bytes, Request**) {
    if (context_.count_operation()) return RODA_AGAIN;
    const MutexLock lock(hub_->mutex);
    const Window& from = window(peer, slot, offset, bytes);
    if (bytes > 0) std::memcpy(destination, from.base + offset, bytes);
    return RODA_OK;
  }
  std::int32_t put(int peer, std::uint32_t slot, std::size_t offset, const void* source, std::size_t bytes, Request**) {
    if (context_.count_operation()) return RODA_AGAIN;
    const MutexLock lock(hub_->mutex);
    const Window& to = window(peer, slot, offset, bytes);
    if (bytes > 0) std::memcpy(to.base + offset, source, bytes);
    return RODA_OK;
  }
  std::int32_t test(Request* request) {
    const MutexLock lock(hub_->mutex);
    sdk::RequestTable<Operation>& operations = self().operations;
    if (request->is_pending()) {
      const std::chrono::nanoseconds limit(state_.timeout_ns());
      if (limit.count() == 0 || Clock::now() - request->started < limit) return RODA_IN_PROGRESS;
      box(state_.rank(), request->peer).withdraw(request);
      Box& sent = box(request->peer, state_.rank());
      sent.drop(sent.find(request->tag, [&](const Message& message) { return message.sender == request; }));
      operations.finish(*request, state_.stood_still("a message with", request->peer));
    }
    return operations.collect(*request);
  }

  std::uint32_t signal_count() const { return kSignals; }
  void signal(int peer, std::uint32_t index, std::uint64_t value) {
    state_.check_index(index, kSignals, "signal");
    const MutexLock lock(hub_->mutex);
    check_peer(peer);
    signal_of(peer, state_.rank(), index).store(value, std::memory_order_release);
    member(peer).ring();
  }
  std::uint64_t signal_value(int peer, std::uint32_t index) const {
    return signal_of(state_.rank(), peer, index).load(std::memory_order_acquire);
  }

  std::uint32_t window_count() const { return kWindows; }
  void window_open(std::uint32_t slot, void* base, std::size_t bytes, const roda_memory*) {
    state_.check_index(slot, kWindows, "window");
    state_.throw_if_broken();
    const MutexLock lock(hub_->mutex);
    self().windows[slot] = {static_cast<char*>(base), bytes};
  }
  void window_close(std::uint32_t slot) {
    const MutexLock lock(hub_->mutex);
    if (slot < kWindows) self().windows[slot] = {};
  }
  void* window_map(int peer, std::uint32_t slot) const {
    const MutexLock lock(hub_->mutex);
    if (slot >= kWindows) return nullptr;
    const Window& window = member(peer).windows[slot];
    // Only memory that the hub keeps alive: any other may be freed while a peer still reads it after an abort.
    const auto after = hub_->blocks.upper_bound(window.base);
    if (window.base == nullptr || after == hub_->blocks.begin()) return nullptr;
    const auto& [block, bytes] = *std::prev(after);
    return window.base + window.bytes <= block + bytes ? window.base : nullptr;
  }

  void memory_alloc(std::size_t bytes, roda_memory* memory) {
    state_.throw_if_broken();
    const std::size_t rounded = std::max(bytes + kAlignment - 1, kAlignment) / kAlignment * kAlignment;
    auto* block = static_cast<char*>(std::aligned_alloc(kAlignment, rounded));
    if (block == nullptr) throw std::bad_alloc();
    const MutexLock lock(hub_->mutex);
    hub_->blocks.emplace(block, rounded);
    *memory = {sizeof *memory, RODA_MEMORY_HOST, -1, 0, block, bytes, block};
  }
  void memory_free(roda_memory* memory) {
    auto* block = static_cast<char*>(memory->owner);
    const MutexLock lock(hub_->mutex);
    if (hub_->is_broken) return;  // a peer may not have noticed the abort yet
    if (hub_->blocks.erase(block) > 0) std::free(block);
  }

  // --- the context's ---
  // Delivers what has become due; the number of messages.
  int progress() {
    const MutexLock lock(hub_->mutex);
    int delivered = 0;
    for (int peer = 0; peer < state_.size(); ++peer) delivered += deliver(state_.rank(), peer);
    if (delivered > 0) end_orphans(state_.rank(), "is no longer in the group");
    return delivered;
  }
  // When the next message does that a receive waits for.
  Clock::time_point next_due() const {
    const MutexLock lock(hub_->mutex);
    Clock::time_point next = Clock::time_point::max();
    // A message that nobody asked for yet wakes no one.
    for (Box& from : self().from) {
      for (const Operation* receive : from.awaited()) {
        if (const Message* message = from.find(receive->tag)) next = std::min(next, message->due);
      }
    }
    return next;
  }

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
      RODA_REQUIRES(hub_->mutex) {
    Operation& operation = self().operations.take(data, bytes, tag);
    operation.is_send = is_send;
    operation.peer = peer;
    operation.started = Clock::now();
    return operation;
  }
  // What is due of the messages to one member from another; how many there were.
  int deliver(int to, int from) RODA_REQUIRES(hub_->mutex) {
    const std::vector<Operation*> awaited = box(to, from).awaited();
    const auto now = Clock::now();
    int delivered = 0;
    for (Operation* receive : awaited) delivered += try_deliver(to, *receive, now) ? 1 : 0;
    return delivered;
  }
  // The oldest message of the peer and tag, if it is due. Ends both sides.
  bool try_deliver(int to, Operation& receive, Clock::time_point now) RODA_REQUIRES(hub_->mutex) {
    Box& from = box(to, receive.peer);
    const Message* message = from.find(receive.tag);
    if (message == nullptr || message->due > now) return false;
    sdk::RequestTable<Operation>& operations = member(to).operations;
    if (message->bytes == receive.bytes) {
      const auto* data =
          message->sender != nullptr ? static_cast<const void*>(message->sender->data) : message->copy.data();
      if (message->bytes > 0) std::memcpy(receive.data, data, message->bytes);
      operations.finish(receive);
    } else {
      operations.finish(receive, state_.other_length(message->bytes, receive.bytes, receive.peer));
    }
    if (message->sender != nullptr) {
      member(receive.peer).operations.finish(*message->sender);
      member(receive.peer).ring();
    }
    from.withdraw(&receive);
    from.drop(message);
    member(to).ring();
    return true;
  }
  // This member takes no further part: what it still offers from its own memory is taken back, short messages stay.
  // `why` follows its name.
  void withdraw(const std::string& why) RODA_REQUIRES(hub_->mutex) {
    if (std::exchange(self().gone, true)) return;
    for (Box& each : self().from) each = {};
    for (int peer = 0; peer < state_.size(); ++peer) {
      if (peer == state_.rank()) continue;
      Box& sent = box(peer, state_.rank());
      std::vector<const Message*> offered;
      for (const Message& message : sent.early()) {
        if (message.sender != nullptr) offered.push_back(&message);
      }
      for (const Message* message : offered) sent.drop(message);
      end_orphans(peer, why);
      member(peer).ring();
    }
  }
  // Ends a member's operations with peers that are gone, except receives whose message is still on its way.
  void end_orphans(int rank, const std::string& why) RODA_REQUIRES(hub_->mutex) {
    sdk::RequestTable<Operation>& operations = member(rank).operations;
    operations.for_each_pending([&](Operation& operation) {
      hub_->mutex.assert_held();
      Box& from = box(rank, operation.peer);
      if (!member(operation.peer).gone || (!operation.is_send && from.find(operation.tag) != nullptr)) return;
      from.withdraw(&operation);
      operations.finish(operation, state_.fault(RODA_ERR_PEER, operation.peer, why));
    });
  }
  const Window& window(int peer, std::uint32_t slot, std::size_t offset, std::size_t bytes) const
      RODA_REQUIRES(hub_->mutex) {
    state_.check_index(slot, kWindows, "window");
    check_peer(peer);
    if (member(peer).gone) throw gone(peer);
    const Window& window = member(peer).windows[slot];
    if (window.base != nullptr && offset <= window.bytes && bytes <= window.bytes - offset) return window;
    throw state_.fault(RODA_ERR_INVALID, peer,
                       "has no bytes " + std::to_string(offset) + " to " + std::to_string(offset + bytes) +
                           " in its window " + std::to_string(slot));
  }

  Context& context_;
  const std::shared_ptr<Hub> hub_;
  sdk::GroupState state_;
};

std::shared_ptr<Hub> Hub::find(const roda_group_desc& desc) {
  static Mutex mutex;
  static auto& hubs RODA_GUARDED_BY(mutex) = *new std::map<std::pair<std::string, std::uint64_t>, std::weak_ptr<Hub>>();
  const MutexLock lock(mutex);
  std::erase_if(hubs, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Hub>& entry = hubs[{desc.name, desc.generation}];
  std::shared_ptr<Hub> hub = entry.lock();
  const auto size = static_cast<std::size_t>(desc.size);
  if (hub == nullptr) entry = hub = std::make_shared<Hub>(size);
  const MutexLock inside(hub->mutex);
  if (hub->members.size() == size) return hub;
  throw sdk::Failure(RODA_ERR_PRECONDITION, std::string("loop: group ") + desc.name + " was formed with " +
                                                std::to_string(hub->members.size()) + " members, not " +
                                                std::to_string(size));
}

Context::Context(const roda_host* host)
    : settings_(sdk::read_settings(kSettings, host)),
      timer_(sdk::check_system(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), "timerfd_create")),
      poll_(sdk::check_system(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")) {
  for (const int fd : {timer_.get(), doorbell_.fd()}) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    sdk::check_system(::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
  }
}

bool Context::arm() {
  doorbell_.arm();
  Clock::time_point next = Clock::time_point::max();
  for (const Group* group : groups_) next = std::min(next, group->next_due());
  const bool waits = next != Clock::time_point::max();
  if (waits && next <= Clock::now()) return false;
  const auto since_epoch = waits ? next.time_since_epoch() : Clock::duration::zero();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_epoch);
  itimerspec when{};
  when.it_value.tv_sec = seconds.count();
  when.it_value.tv_nsec = std::chrono::nanoseconds(since_epoch - seconds).count();
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
  return true;
}

namespace {

constexpr std::uint64_t kCapabilities = RODA_CAP_P2P | RODA_CAP_SIGNAL | RODA_CAP_GET | RODA_CAP_PUT | RODA_CAP_MAP |
                                        RODA_CAP_ALLOCATE | RODA_CAP_SAME_HOST | RODA_CAP_IN_PROCESS |
                                        RODA_CAP_FAULT_TOLERANT | RODA_CAP_WINDOW_ANY;
constexpr roda_transport kTransport = sdk::transport<Context, Group, kCapabilities>(
    "loop", "ranks as threads of one process, for tests", RODA_PROGRESS_FD);

}  // namespace
}  // namespace roda::loop

const roda_transport* roda_loop_transport() { return &roda::loop::kTransport; }
