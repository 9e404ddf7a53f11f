#include "transports/loop/hub.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace roda::loop {

using Lock = std::lock_guard<std::mutex>;

std::shared_ptr<Hub> Hub::find(const roda_group_desc& desc) {
  static std::mutex mutex;
  static auto& hubs = *new std::map<std::pair<std::string, std::uint64_t>, std::weak_ptr<Hub>>();
  Lock lock(mutex);
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
      signals_(world_ranks_.size() * world_ranks_.size() * kSignals) {}

Hub::~Hub() {
  for (const auto& [block, bytes] : blocks_) std::free(block);
  for (char* block : graveyard_) std::free(block);
}

void Hub::join(int rank, Context* context) {
  Lock lock(mutex_);
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
  Lock lock(mutex_);
  return std::all_of(members_.begin(), members_.end(), [](const Member& m) { return m.joined; });
}

std::string Hub::missing() const {
  Lock lock(mutex_);
  std::string ranks;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (!members_[i].joined) ranks += (ranks.empty() ? "" : ", ") + std::to_string(world_ranks_[i]);
  }
  return ranks;
}

std::string Hub::who(int rank) const { return "rank " + std::to_string(world_ranks_[static_cast<std::size_t>(rank)]); }

void Hub::abort(int rank, const sdk::Failure& cause) {
  Lock lock(mutex_);
  Member& self = member(rank);
  if (self.cause != nullptr || !self.joined) return;
  self.cause = std::make_unique<sdk::Failure>(cause);
  broken_ = true;
  end_pending(rank, cause);
  withdraw(rank, std::string("aborted: ") + cause.what());
}

void Hub::leave(int rank) {
  Lock lock(mutex_);
  Member& self = member(rank);
  withdraw(rank, "left the group " + name_);
  std::fill(self.windows.begin(), self.windows.end(), Window{});
  self.context = nullptr;
}

bool Hub::is_aborted(int rank) const {
  Lock lock(mutex_);
  return member(rank).cause != nullptr;
}

void Hub::throw_if_aborted(int rank) const {
  Lock lock(mutex_);
  if (member(rank).cause != nullptr) throw *member(rank).cause;
}

void Hub::end(int rank, Operation* operation, int code, int from, const std::string& text) {
  operation->done = true;
  operation->code = code;
  operation->rank = from;
  operation->message = text;
  if (member(rank).context != nullptr) member(rank).context->ring();
}

void Hub::end_pending(int rank, const sdk::Failure& cause) {
  Member& self = member(rank);
  for (Operation* operation : std::exchange(self.receives, {})) {
    end(rank, operation, cause.code(), cause.rank(), cause.what());
  }
  for (Operation* operation : std::exchange(self.sends, {})) {
    end(rank, operation, cause.code(), cause.rank(), cause.what());
  }
}

// The member takes no further part: what it still offers from its own memory is taken back, short messages stay.
void Hub::withdraw(int rank, const std::string& why) {
  Member& self = member(rank);
  if (self.gone) return;
  self.gone = true;
  self.arrived.clear();
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank) continue;
    Member& other = member(peer);
    std::erase_if(other.arrived, [rank](const Message& m) { return m.from == rank && m.sender != nullptr; });
    end_orphans(peer, who(rank) + " " + why);
    if (other.context != nullptr) other.context->ring();
  }
}

// Ends the member's operations with peers that are gone, except receives whose message is still on its way.
void Hub::end_orphans(int rank, const std::string& why) {
  Member& self = member(rank);
  for (std::deque<Operation*>* list : {&self.receives, &self.sends}) {
    for (Operation* operation : *list) {
      if (!member(operation->peer).gone || (list == &self.receives && is_on_its_way(rank, operation))) continue;
      end(rank, operation, RODA_ERR_PEER, world_ranks_[static_cast<std::size_t>(operation->peer)], why);
    }
    std::erase_if(*list, [](const Operation* operation) { return operation->done; });
  }
}

bool Hub::is_on_its_way(int rank, const Operation* receive) const {
  const std::deque<Message>& arrived = member(rank).arrived;
  return std::any_of(arrived.begin(), arrived.end(), [receive](const Message& message) {
    return message.from == receive->peer && message.tag == receive->tag;
  });
}

void Hub::check_alive(int rank, int peer) const {
  if (member(rank).cause != nullptr) throw *member(rank).cause;
  if (peer < 0 || peer >= size() || peer == rank) {
    throw sdk::Failure(RODA_ERR_INVALID, "no peer " + std::to_string(peer) + " in group " + name_);
  }
}

bool Hub::send(int rank, Operation* operation, Clock::duration delay) {
  Lock lock(mutex_);
  check_alive(rank, operation->peer);
  Member& peer = member(operation->peer);
  if (peer.gone) {
    throw sdk::Failure(RODA_ERR_PEER, who(operation->peer) + " is no longer in group " + name_,
                       world_ranks_[static_cast<std::size_t>(operation->peer)]);
  }
  Message message{.from = rank, .tag = operation->tag, .bytes = operation->bytes, .due = Clock::now() + delay};
  const bool is_short = operation->bytes <= kEagerBytes;
  if (is_short) {
    const char* data = static_cast<const char*>(operation->data);
    message.copy.assign(data, data + operation->bytes);
  } else {
    message.sender = operation;
    member(rank).sends.push_back(operation);
  }
  const int receiver = operation->peer;
  peer.arrived.push_back(std::move(message));
  const auto now = Clock::now();
  std::deque<Operation*>& receives = peer.receives;
  const auto matched = std::find_if(receives.begin(), receives.end(),
                                    [&](Operation* receive) { return try_deliver(receiver, receive, now); });
  if (matched != receives.end()) receives.erase(matched);
  if (peer.context != nullptr) peer.context->ring();  // also for a delayed message: the sleeper must set its timer
  return is_short || operation->done;
}

bool Hub::receive(int rank, Operation* operation) {
  Lock lock(mutex_);
  check_alive(rank, operation->peer);
  if (try_deliver(rank, operation, Clock::now())) return operation->code == RODA_OK;
  const Member& peer = member(operation->peer);
  if (peer.gone && !is_on_its_way(rank, operation)) {
    throw sdk::Failure(RODA_ERR_PEER, who(operation->peer) + " is no longer in group " + name_,
                       world_ranks_[static_cast<std::size_t>(operation->peer)]);
  }
  member(rank).receives.push_back(operation);
  return false;
}

// The oldest message of the peer and tag, if it is due. Ends both sides.
bool Hub::try_deliver(int rank, Operation* receive, Clock::time_point now) {
  std::deque<Message>& arrived = member(rank).arrived;
  const auto found = std::find_if(arrived.begin(), arrived.end(), [receive](const Message& message) {
    return message.from == receive->peer && message.tag == receive->tag;
  });
  if (found == arrived.end() || found->due > now) return false;
  const Message message = std::move(*found);
  arrived.erase(found);
  int code = RODA_OK;
  std::string text;
  if (message.bytes == receive->bytes) {
    const void* from = message.sender != nullptr ? message.sender->data : message.copy.data();
    if (message.bytes > 0) std::memcpy(receive->data, from, message.bytes);
  } else {
    code = RODA_ERR_INVALID;
    text = who(message.from) + " sent " + std::to_string(message.bytes) + " bytes where " +
           std::to_string(receive->bytes) + " were expected (group " + name_ + ")";
  }
  if (message.sender != nullptr) {
    std::erase(member(message.from).sends, message.sender);
    end(message.from, message.sender, RODA_OK, -1, {});
  }
  end(rank, receive, code, code == RODA_OK ? -1 : world_ranks_[static_cast<std::size_t>(message.from)], text);
  return true;
}

sdk::Failure Hub::test(int rank, Operation* operation, Clock::duration timeout) {
  Lock lock(mutex_);
  if (operation->done) return {operation->code, operation->message, operation->rank};
  const bool is_late = timeout != Clock::duration::zero() && Clock::now() - operation->started >= timeout;
  if (!is_late) return {RODA_IN_PROGRESS, {}};
  forget(rank, operation);
  return {RODA_ERR_TIMEOUT, "no answer from " + who(operation->peer) + " in group " + name_,
          world_ranks_[static_cast<std::size_t>(operation->peer)]};
}

void Hub::forget(int rank, Operation* operation) {
  std::erase(member(rank).receives, operation);
  std::erase(member(rank).sends, operation);
  std::erase_if(member(operation->peer).arrived, [operation](const Message& m) { return m.sender == operation; });
}

Clock::time_point Hub::next_due(int rank) const {
  Lock lock(mutex_);
  Clock::time_point next = Clock::time_point::max();
  // A message that nobody asked for yet wakes no one.
  for (const Operation* receive : member(rank).receives) {
    for (const Message& message : member(rank).arrived) {
      if (message.from == receive->peer && message.tag == receive->tag) next = std::min(next, message.due);
    }
  }
  return next;
}

int Hub::deliver_due(int rank) {
  Lock lock(mutex_);
  std::deque<Operation*>& receives = member(rank).receives;
  const auto now = Clock::now();
  const std::size_t before = receives.size();
  std::erase_if(receives, [&](Operation* receive) { return try_deliver(rank, receive, now); });
  const int delivered = static_cast<int>(before - receives.size());
  if (delivered > 0) end_orphans(rank, "a peer is no longer in group " + name_);
  return delivered;
}

}  // namespace roda::loop
