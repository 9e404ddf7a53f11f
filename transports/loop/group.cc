#include "transports/loop/group.h"

#include <cstdlib>
#include <cstring>
#include <utility>

namespace roda::loop {
namespace {

constexpr std::size_t kEagerBytes = 4096;
constexpr std::size_t kAlignment = 64;

}  // namespace

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

Hub::Hub(std::size_t size) : members(size), signals(size * size * kSignals) {
  for (Member& each : members) each.from.resize(size);
}

Hub::~Hub() {
  for (const auto& [block, bytes] : blocks) std::free(block);
}

Group::Group(Context& context, const roda_group_desc& desc)
    : context_(context), hub_(Hub::find(desc)), state_("loop", desc) {
  const MutexLock lock(hub_->mutex);
  if (std::exchange(self().joined, true)) {
    throw sdk::Failure(RODA_ERR_INVALID, state_.text("was joined twice by rank " + std::to_string(state_.rank())));
  }
  self().context = &context;
  for (Member& other : hub_->members) other.ring();
  context_.add(this);
}

Group::~Group() {
  context_.remove(this);
  const MutexLock lock(hub_->mutex);
  withdraw("has left the group");
  std::fill(self().windows.begin(), self().windows.end(), Window{});
  self().context = nullptr;
}

bool Group::test() {
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

void Group::abort(const sdk::Failure& cause) {
  if (!state_.abort(cause)) return;
  const MutexLock lock(hub_->mutex);
  hub_->is_broken = true;
  sdk::RequestTable<Operation>& operations = self().operations;
  operations.for_each_pending([&](Operation& operation) { operations.finish(operation, cause); });
  self().ring();
  withdraw(std::string("aborted: ") + cause.what());
}

bool Group::is_quiet(const void* base, std::size_t bytes) const {
  const MutexLock lock(hub_->mutex);
  if (self().gone) return true;
  const auto shows = [&](const Window& window) { return sdk::overlaps(window.base, window.bytes, base, bytes); };
  return !self().operations.touches(base, bytes) && std::none_of(self().windows.begin(), self().windows.end(), shows);
}

std::int32_t Group::send(int peer, std::uint64_t tag, const void* data, std::size_t bytes, const roda_memory*,
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

std::int32_t Group::receive(int peer, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory*,
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

std::int32_t Group::test(Request* request) {
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

int Group::progress() {
  const MutexLock lock(hub_->mutex);
  int delivered = 0;
  for (int peer = 0; peer < state_.size(); ++peer) delivered += deliver(state_.rank(), peer);
  if (delivered > 0) end_orphans(state_.rank(), "is no longer in the group");
  return delivered;
}

Clock::time_point Group::next_due() const {
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

Operation& Group::begin(int peer, std::uint64_t tag, const void* data, std::size_t bytes, bool is_send) {
  Operation& operation = self().operations.take(data, bytes, tag);
  operation.is_send = is_send;
  operation.peer = peer;
  operation.started = Clock::now();
  return operation;
}

int Group::deliver(int to, int from) {
  const std::vector<Operation*> awaited = box(to, from).awaited();
  const auto now = Clock::now();
  int delivered = 0;
  for (Operation* receive : awaited) delivered += try_deliver(to, *receive, now) ? 1 : 0;
  return delivered;
}

bool Group::try_deliver(int to, Operation& receive, Clock::time_point now) {
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

void Group::withdraw(const std::string& why) {
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

void Group::end_orphans(int rank, const std::string& why) {
  sdk::RequestTable<Operation>& operations = member(rank).operations;
  operations.for_each_pending([&](Operation& operation) {
    hub_->mutex.assert_held();
    Box& from = box(rank, operation.peer);
    if (!member(operation.peer).gone || (!operation.is_send && from.find(operation.tag) != nullptr)) return;
    from.withdraw(&operation);
    operations.finish(operation, state_.fault(RODA_ERR_PEER, operation.peer, why));
  });
}

// Signals, windows and memory of a loop group.
void Group::signal(int peer, std::uint32_t index, std::uint64_t value) {
  state_.check_index(index, kSignals, "signal");
  const MutexLock lock(hub_->mutex);
  check_peer(peer);
  signal_of(peer, state_.rank(), index).store(value, std::memory_order_release);
  member(peer).ring();
}

void Group::window_open(std::uint32_t slot, void* base, std::size_t bytes, const roda_memory*) {
  state_.check_index(slot, kWindows, "window");
  state_.throw_if_broken();
  const MutexLock lock(hub_->mutex);
  self().windows[slot] = {static_cast<char*>(base), bytes};
}

void Group::window_close(std::uint32_t slot) {
  const MutexLock lock(hub_->mutex);
  if (slot < kWindows) self().windows[slot] = {};
}

void* Group::window_map(int peer, std::uint32_t slot) const {
  const MutexLock lock(hub_->mutex);
  if (slot >= kWindows) return nullptr;
  const Window& window = member(peer).windows[slot];
  // Only memory that the hub keeps alive: any other may be freed while a peer still reads it after an abort.
  const auto after = hub_->blocks.upper_bound(window.base);
  if (window.base == nullptr || after == hub_->blocks.begin()) return nullptr;
  const auto& [block, bytes] = *std::prev(after);
  return window.base + window.bytes <= block + bytes ? window.base : nullptr;
}

const Window& Group::window(int peer, std::uint32_t slot, std::size_t offset, std::size_t bytes) const {
  state_.check_index(slot, kWindows, "window");
  check_peer(peer);
  if (member(peer).gone) throw gone(peer);
  const Window& window = member(peer).windows[slot];
  if (window.base != nullptr && offset <= window.bytes && bytes <= window.bytes - offset) return window;
  throw state_.fault(RODA_ERR_INVALID, peer,
                     "has no bytes " + std::to_string(offset) + " to " + std::to_string(offset + bytes) +
                         " in its window " + std::to_string(slot));
}

std::int32_t Group::get(int peer, std::uint32_t slot, std::size_t offset, void* destination, std::size_t bytes,
                        Request**) {
  if (context_.count_operation()) return RODA_AGAIN;
  const MutexLock lock(hub_->mutex);
  const Window& from = window(peer, slot, offset, bytes);
  if (bytes > 0) std::memcpy(destination, from.base + offset, bytes);
  return RODA_OK;
}

std::int32_t Group::put(int peer, std::uint32_t slot, std::size_t offset, const void* source, std::size_t bytes,
                        Request**) {
  if (context_.count_operation()) return RODA_AGAIN;
  const MutexLock lock(hub_->mutex);
  const Window& to = window(peer, slot, offset, bytes);
  if (bytes > 0) std::memcpy(to.base + offset, source, bytes);
  return RODA_OK;
}

void Group::memory_alloc(std::size_t bytes, roda_memory* memory) {
  state_.throw_if_broken();
  const std::size_t rounded = std::max(bytes + kAlignment - 1, kAlignment) / kAlignment * kAlignment;
  auto* block = static_cast<char*>(std::aligned_alloc(kAlignment, rounded));
  if (block == nullptr) throw std::bad_alloc();
  const MutexLock lock(hub_->mutex);
  hub_->blocks.emplace(block, rounded);
  *memory = {sizeof *memory, RODA_MEMORY_HOST, -1, 0, block, bytes, block};
}

void Group::memory_free(roda_memory* memory) {
  auto* block = static_cast<char*>(memory->owner);
  const MutexLock lock(hub_->mutex);
  if (hub_->is_broken) return;  // a peer may not have noticed the abort yet
  if (hub_->blocks.erase(block) > 0) std::free(block);
}

}  // namespace roda::loop
