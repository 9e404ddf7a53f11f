#include "transports/loop/hub.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace roda::loop {

std::shared_ptr<Hub> Hub::find(const roda_group_desc& desc) {
  static Mutex mutex;
  static auto& hubs RODA_GUARDED_BY(mutex) = *new std::map<std::pair<std::string, std::uint64_t>, std::weak_ptr<Hub>>();
  const MutexLock lock(mutex);
  std::erase_if(hubs, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Hub>& entry = hubs[{desc.name, desc.generation}];
  std::shared_ptr<Hub> hub = entry.lock();
  if (hub == nullptr) {
    hub = std::make_shared<Hub>(desc.name, std::vector<std::int32_t>(desc.world_ranks, desc.world_ranks + desc.size));
    entry = hub;
  }
  if (hub->size() != desc.size) {
    throw sdk::Failure(RODA_ERR_PRECONDITION, "group " + hub->name_ + " was formed with " +
                                                  std::to_string(hub->size()) + " members, not " +
                                                  std::to_string(desc.size));
  }
  return hub;
}

Hub::Hub(std::string name, std::vector<std::int32_t> world_ranks)
    : name_(std::move(name)),
      world_ranks_(std::move(world_ranks)),
      members_(world_ranks_.size()),
      signals_(world_ranks_.size() * world_ranks_.size() * kSignals) {
  for (Member& each : members_) each.from.resize(world_ranks_.size());
}

Hub::~Hub() {
  for (const auto& [block, bytes] : blocks_) std::free(block);
  for (char* block : graveyard_) std::free(block);
}

void Hub::join(int rank, Context* context) {
  const MutexLock lock(mutex_);
  Member& self = member(rank);
  if (self.joined) {
    throw sdk::Failure(RODA_ERR_INVALID, "rank " + std::to_string(rank) + " joined group " + name_ + " twice");
  }
  self.joined = true;
  self.context = context;
  for (const Member& other : members_) {
    if (other.context != nullptr) other.context->ring();
  }
}

bool Hub::complete() const {
  const MutexLock lock(mutex_);
  return std::all_of(members_.begin(), members_.end(), [](const Member& m) { return m.joined; });
}

std::string Hub::missing() const {
  const MutexLock lock(mutex_);
  std::string ranks;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (!members_[i].joined) ranks += (ranks.empty() ? "" : ", ") + std::to_string(world_ranks_[i]);
  }
  return ranks;
}

std::string Hub::who(int rank) const { return "rank " + std::to_string(world_ranks_[static_cast<std::size_t>(rank)]); }

void Hub::abort(int rank, const sdk::Failure& cause) {
  const MutexLock lock(mutex_);
  Member& self = member(rank);
  if (self.cause != nullptr || !self.joined) return;
  self.cause = std::make_unique<sdk::Failure>(cause);
  broken_ = true;
  self.operations.for_each_pending([&](Operation& operation) { self.operations.finish(operation, cause); });
  ring(rank);
  withdraw(rank, std::string("aborted: ") + cause.what());
}

void Hub::leave(int rank) {
  const MutexLock lock(mutex_);
  Member& self = member(rank);
  withdraw(rank, "left the group " + name_);
  std::fill(self.windows.begin(), self.windows.end(), Window{});
  self.context = nullptr;
}

void Hub::throw_if_aborted(int rank) const {
  const MutexLock lock(mutex_);
  if (member(rank).cause != nullptr) throw *member(rank).cause;
}

void Hub::ring(int rank) {
  if (member(rank).context != nullptr) member(rank).context->ring();
}

// The member takes no further part: what it still offers from its own memory is taken back, short messages stay.
void Hub::withdraw(int rank, const std::string& why) {
  Member& self = member(rank);
  if (self.gone) return;
  self.gone = true;
  for (Box& each : self.from) each = {};
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank) continue;
    Box& sent = box(peer, rank);
    std::vector<const Message*> offered;
    for (const Message& message : sent.early()) {
      if (message.sender != nullptr) offered.push_back(&message);
    }
    for (const Message* message : offered) sent.drop(message);
    end_orphans(peer, who(rank) + " " + why);
    ring(peer);
  }
}

// Ends the member's operations with peers that are gone, except receives whose message is still on its way.
void Hub::end_orphans(int rank, const std::string& why) {
  Member& self = member(rank);
  self.operations.for_each_pending([&](Operation& operation) {
    mutex_.assert_held();
    Box& from = box(rank, operation.peer);
    if (!member(operation.peer).gone || (!operation.is_send && from.find(operation.tag) != nullptr)) return;
    from.withdraw(&operation);
    self.operations.finish(operation, {RODA_ERR_PEER, why, world_ranks_[static_cast<std::size_t>(operation.peer)]});
  });
}

void Hub::check_alive(int rank, int peer) const {
  if (member(rank).cause != nullptr) throw *member(rank).cause;
  if (peer < 0 || peer >= size() || peer == rank) {
    throw sdk::Failure(RODA_ERR_INVALID, "no peer " + std::to_string(peer) + " in group " + name_);
  }
}

sdk::Failure Hub::gone(int peer) const {
  return {RODA_ERR_PEER, who(peer) + " is no longer in group " + name_, world_ranks_[static_cast<std::size_t>(peer)]};
}

Operation& Hub::begin(int rank, int peer, std::uint64_t tag, const void* data, std::size_t bytes, bool is_send) {
  Operation& operation = member(rank).operations.take(data, bytes, tag);
  operation.is_send = is_send;
  operation.peer = peer;
  operation.started = Clock::now();
  return operation;
}

Operation* Hub::send(int rank, int peer, std::uint64_t tag, const void* data, std::size_t bytes,
                     Clock::duration delay) {
  const MutexLock lock(mutex_);
  check_alive(rank, peer);
  if (member(peer).gone) throw gone(peer);
  Message& message = box(peer, rank).keep(tag);
  message.bytes = bytes;
  message.due = Clock::now() + delay;
  Operation* sending = nullptr;
  if (bytes <= kEagerBytes) {
    const char* text = static_cast<const char*>(data);
    message.copy.assign(text, text + bytes);
  } else {
    sending = message.sender = &begin(rank, peer, tag, data, bytes, true);
  }
  deliver(peer, rank);
  ring(peer);  // also for a delayed message: the sleeper must set its timer
  if (sending != nullptr) member(rank).operations.hand_out(*sending, &sending);
  return sending;
}

Operation* Hub::receive(int rank, int peer, std::uint64_t tag, void* data, std::size_t bytes) {
  const MutexLock lock(mutex_);
  check_alive(rank, peer);
  if (member(peer).gone && box(rank, peer).find(tag) == nullptr) throw gone(peer);
  Operation* receiving = &begin(rank, peer, tag, data, bytes, false);
  box(rank, peer).await(receiving);
  deliver(rank, peer);
  // An error is told by the test.
  if (!receiving->is_pending() && receiving->code != RODA_OK) return receiving;
  member(rank).operations.hand_out(*receiving, &receiving);
  return receiving;
}

int Hub::deliver(int rank, int from) {
  const std::vector<Operation*> awaited = box(rank, from).awaited();
  const auto now = Clock::now();
  int delivered = 0;
  for (Operation* receive : awaited) delivered += try_deliver(rank, *receive, now) ? 1 : 0;
  return delivered;
}

// The oldest message of the peer and tag, if it is due. Ends both sides.
bool Hub::try_deliver(int rank, Operation& receive, Clock::time_point now) {
  Box& from = box(rank, receive.peer);
  const Message* message = from.find(receive.tag);
  if (message == nullptr || message->due > now) return false;
  sdk::RequestTable<Operation>& operations = member(rank).operations;
  if (message->bytes == receive.bytes) {
    const auto* data =
        message->sender != nullptr ? static_cast<const void*>(message->sender->data) : message->copy.data();
    if (message->bytes > 0) std::memcpy(receive.data, data, message->bytes);
    operations.finish(receive);
  } else {
    operations.finish(receive, {RODA_ERR_INVALID,
                                who(receive.peer) + " sent " + std::to_string(message->bytes) + " bytes where " +
                                    std::to_string(receive.bytes) + " were expected (group " + name_ + ")",
                                world_ranks_[static_cast<std::size_t>(receive.peer)]});
  }
  if (message->sender != nullptr) {
    member(receive.peer).operations.finish(*message->sender);
    ring(receive.peer);
  }
  from.withdraw(&receive);
  from.drop(message);
  ring(rank);
  return true;
}

std::int32_t Hub::test(int rank, Operation* operation, Clock::duration timeout) {
  const MutexLock lock(mutex_);
  sdk::RequestTable<Operation>& operations = member(rank).operations;
  if (operation->is_pending()) {
    const bool is_late = timeout != Clock::duration::zero() && Clock::now() - operation->started >= timeout;
    if (!is_late) return RODA_IN_PROGRESS;
    forget(rank, *operation);
    operations.finish(*operation, {RODA_ERR_TIMEOUT, "no answer from " + who(operation->peer) + " in group " + name_,
                                   world_ranks_[static_cast<std::size_t>(operation->peer)]});
  }
  return operations.collect(*operation);
}

void Hub::forget(int rank, const Operation& operation) {
  box(rank, operation.peer).withdraw(&operation);
  Box& sent = box(operation.peer, rank);
  sent.drop(sent.find(operation.tag, [&](const Message& message) { return message.sender == &operation; }));
}

Clock::time_point Hub::next_due(int rank) {
  const MutexLock lock(mutex_);
  Clock::time_point next = Clock::time_point::max();
  // A message that nobody asked for yet wakes no one.
  for (Box& from : member(rank).from) {
    for (const Operation* receive : from.awaited()) {
      if (const Message* message = from.find(receive->tag)) next = std::min(next, message->due);
    }
  }
  return next;
}

int Hub::deliver_due(int rank) {
  const MutexLock lock(mutex_);
  int delivered = 0;
  for (int peer = 0; peer < size(); ++peer) delivered += deliver(rank, peer);
  if (delivered > 0) end_orphans(rank, "a peer is no longer in group " + name_);
  return delivered;
}

}  // namespace roda::loop
