// The messages of a group, and the ends of requests.
#include <algorithm>

#include "transports/gloo/group.h"

namespace roda::gloo {

Link& Group::link(int peer) {
  if (!state_.is_formed() || !state_.is_peer(peer)) state_.refuse(peer);
  std::unique_ptr<Link>& link = links_[static_cast<std::size_t>(peer)];
  if (link == nullptr) {
    const auto explain = [this, peer](int32_t code, const std::string& text) {
      return explain_message(peer, code, text);
    };
    link = std::make_unique<Link>(*mesh_, peer, explain, [this](const sdk::Failure& cause) { break_with(cause); });
    sockets_->add(mesh_->socket(peer));
  }
  return *link;
}

sdk::Failure Group::explain_message(int peer, int32_t code, const std::string& text) {
  if (state_.is_broken()) return state_.cause();
  const int rank = state_.world_rank(peer);
  return {code, "gloo: messages with rank " + std::to_string(rank) + " in " + state_.label() + ": " + text, rank};
}

int32_t Group::send(int peer, std::uint64_t tag, const void* data, std::size_t bytes, const roda_memory*,
                    Request** request) {
  return start_message(peer, tag, const_cast<void*>(data), bytes, request, &Link::send);
}

int32_t Group::receive(int peer, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory*,
                       Request** request) {
  return start_message(peer, tag, data, bytes, request, &Link::receive);
}

int32_t Group::start_message(int peer, std::uint64_t tag, void* data, std::size_t bytes, Request** request,
                             Link::Begun (Link::*begin)(Request*)) {
  state_.throw_if_broken();
  Link& with = link(peer);
  Request* message = pool_.take();
  message->start_message(peer, tag, data, bytes);
  Link::Begun begun = Link::Begun::kDone;
  try {
    begun = (with.*begin)(message);
  } catch (...) {
    pool_.give_back(message);
    throw;
  }
  if (begun == Link::Begun::kPending) {
    live_.push_back(message);
    ++messages_pending_;
    *request = message;
  } else {
    pool_.give_back(message);
  }
  return begun == Link::Begun::kAgain ? RODA_AGAIN : RODA_OK;
}

int Group::pump(bool* data_came) {
  if (messages_pending_ == 0) return 0;
  if (state_.is_broken()) return is_torn_down_ ? end_messages() : 0;
  int moved = 0;
  bool lost_one = false;
  for (const std::unique_ptr<Link>& link : links_) {
    if (link == nullptr || link->is_broken()) continue;
    moved += link->pump(data_came);
    lost_one |= link->is_broken();
  }
  if (lost_one) watch_links();
  return moved;
}

int Group::end_messages() {
  int ended = 0;
  const sdk::Failure first = state_.cause();
  for (const std::unique_ptr<Link>& link : links_) {
    if (link != nullptr) ended += link->end_all(first);
  }
  return ended;
}

void Group::watch_links() {
  // A new set: a closed socket that a child still holds would stay in the old one, and be readable for ever.
  auto sockets = std::make_unique<SocketSet>();
  for (int peer = 0; peer < state_.size(); ++peer) {
    const auto& link = links_[static_cast<std::size_t>(peer)];
    if (link != nullptr && !link->is_broken()) sockets->add(mesh_->socket(peer));
  }
  if (is_watched_) context_->wakeups().exclude(*sockets_);
  is_watched_ = false;
  sockets_ = std::move(sockets);
}

bool Group::prepare_sleep(Wakeups& wakeups, std::optional<Clock::time_point>* rest) {
  const bool awaits_messages = messages_pending_ > 0;
  bool rests = false;
  for (const std::unique_ptr<Link>& link : links_) {
    const auto until = link == nullptr || link->is_broken() ? std::nullopt : link->rest();
    if (!until.has_value()) continue;
    rests = true;
    *rest = std::min(rest->value_or(*until), *until);
  }
  const bool watches = awaits_messages && !rests;
  if (watches != is_watched_) {
    watches ? wakeups.include(*sockets_) : wakeups.exclude(*sockets_);
    is_watched_ = watches;
  }
  return awaits_messages;
}

void Group::release(Request* request) {
  if (request->is_message()) --messages_pending_;
  std::erase(live_, request);
  pool_.give_back(request);
}

int32_t Group::test(Request* request) {
  if (request->is_done()) {
    const sdk::Failure end = request->result();
    release(request);
    if (end.code() != RODA_OK) throw end;
    return RODA_OK;
  }
  if (!request->is_message() || state_.is_broken() || Clock::now() - request->started() < timeout_)
    return RODA_IN_PROGRESS;
  const sdk::Failure late = explain_message(request->peer(), RODA_ERR_TIMEOUT,
                                            "nothing moved within the limit; if the rank is merely slow, raise "
                                            "HOROVOD_GLOO_TIMEOUT_SECONDS");
  if (!link(request->peer()).withdraw(request)) {
    // Its data are moving: it ends when the connection is torn down, if it did not end this moment.
    if (!request->is_done()) break_with(late);
    return RODA_IN_PROGRESS;
  }
  release(request);
  throw late;
}

bool Group::is_quiet(const void* base, std::size_t bytes) const {
  return std::none_of(live_.begin(), live_.end(), [&](const Request* request) {
    return !request->is_done() && request->touches(base, bytes, state_.rank());
  });
}

}  // namespace roda::gloo
