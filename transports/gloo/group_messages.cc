// The messages of a group, and the ends of requests.
#include <algorithm>

#include "transports/gloo/group.h"

namespace roda::gloo {

Link& Group::link(int peer) {
  if (peer < 0 || peer >= size_ || peer == rank_) {
    throw sdk::Failure(RODA_ERR_INVALID, "no peer " + std::to_string(peer) + " in " + label());
  }
  std::unique_ptr<Link>& link = links_[static_cast<std::size_t>(peer)];
  if (link == nullptr) {
    const auto explain = [this, peer](int32_t code, const std::string& text) {
      return explain_message(peer, code, text);
    };
    auto made = std::make_unique<Link>(mesh_->context(), peer, explain, [context = context_] { context->notify(); });
    std::lock_guard lock(mutex_);
    link = std::move(made);
  }
  return *link;
}

sdk::Failure Group::explain_message(int peer, int32_t code, const std::string& text) {
  try {
    cause_.throw_if_set();
  } catch (const sdk::Failure& first) {
    return first;
  }
  const int rank = world_rank(peer);
  return {code, "gloo: messages with rank " + std::to_string(rank) + " in " + label() + ": " + text, rank};
}

int32_t Group::send(int peer, std::uint64_t tag, const void* data, std::size_t bytes, const roda_memory*,
                    Request** request) {
  return start_message(peer, tag, const_cast<void*>(data), bytes, request, [](Link& link, Request* message) {
    return link.send(message) ? Begun::kPending : Begun::kAgain;
  });
}

int32_t Group::receive(int peer, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory*,
                       Request** request) {
  return start_message(peer, tag, data, bytes, request, [](Link& link, Request* message) {
    return link.receive(message) ? Begun::kDone : Begun::kPending;
  });
}

int32_t Group::start_message(int peer, std::uint64_t tag, void* data, std::size_t bytes, Request** request,
                             Begun (*begin)(Link&, Request*)) {
  cause_.throw_if_set();
  Link& with = link(peer);
  Request* message = pool_.take();
  message->start_message(peer, tag, data, bytes);
  Begun begun = Begun::kDone;
  try {
    begun = begin(with, message);
  } catch (...) {
    pool_.give_back(message);
    throw;
  }
  if (begun == Begun::kPending) {
    *request = keep(message);
  } else {
    pool_.give_back(message);
  }
  return begun == Begun::kAgain ? RODA_AGAIN : RODA_OK;
}

Group::Request* Group::keep(Request* request) {
  live_.push_back(request);
  bool first = false;
  {
    std::lock_guard lock(mutex_);
    first = messages_pending_++ == 0;
  }
  if (first) jobs_changed_.notify_one();
  return request;
}

void Group::release(Request* request) {
  if (request->is_message()) {
    std::lock_guard lock(mutex_);
    --messages_pending_;
  }
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
  if (!request->is_message() || cause_.is_set() || Clock::now() - request->started() < timeout_)
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
    return !request->is_done() && request->touches(base, bytes, rank_);
  });
}

}  // namespace roda::gloo
