// Messages: how requests end.
#include <roda/sdk/error.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include "transports/verbs/messages.h"

namespace roda::verbs {

void Messages::end_hold(Request& request) {
  if (!request.holds_signals) return;
  request.holds_signals = false;
  --request.link->holding_puts;
}

void Messages::unlist(Request& request) {
  Link& link = *request.link;
  link.receives.withdraw(&request);
  link.sends.withdraw(&request);
  std::erase(link.to_ask, &request);
}

void Messages::finish(Request& request, const sdk::Failure& end) {
  Link& link = *request.link;
  unlist(request);
  end_hold(request);
  if (request.bounce != Request::kNoBounce) {
    const bool fetched = end.code() == RODA_OK && request.kind == Request::Kind::kGet;
    if (fetched) std::memcpy(request.data, wires_->bounce(request.bounce), request.bytes);
    free_bounces_.push_back(std::exchange(request.bounce, Request::kNoBounce));
  }
  request.own.release();
  end.code() == RODA_OK ? requests_.finish(request) : requests_.finish(request, end);
  if (!std::exchange(request.is_asked, false)) return;
  --link.asked;
  if (link.to_ask.empty() || link.life != Link::Life::kOpen) return;
  Request* next = link.to_ask.front();
  link.to_ask.pop_front();
  ask(*next);
}

std::int32_t Messages::test(Request* request) {
  if (!request->is_pending()) return requests_.collect(*request);
  check_deadline(*request);
  return RODA_IN_PROGRESS;
}

void Messages::check_deadline(const Request& request) const {
  if (group_.timeout_ns() == 0 || now_ns() < request.moved_ns + group_.timeout_ns()) return;
  throw group_.stood_still("an operation of " + std::to_string(request.bytes) + " bytes with", request.link->rank);
}

void Messages::end_all(const sdk::Failure& cause) {
  active_.clear();
  requests_.for_each_pending([&](Request& request) {
    request.is_asked = false;  // nobody else is to be asked
    finish(request, cause);
  });
}

void Messages::end_those_of(const Link& link, const sdk::Failure& cause) {
  std::erase_if(active_, [&](const Request* request) { return request->link == &link; });
  requests_.for_each_pending([&](Request& request) {
    if (request.link == &link) finish(request, cause);
  });
}

void Messages::forget() {
  requests_.for_each_pending([](Request& request) { request.own.forget(); });
}

}  // namespace roda::verbs
