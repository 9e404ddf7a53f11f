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
  std::erase(link.posted, &request);
  std::erase(link.announced, &request);
  std::erase(link.to_ask, &request);
}

void Messages::finish(Request& request, std::int32_t code, std::string message) {
  Link& link = *request.link;
  unlist(request);
  end_hold(request);
  if (request.bounce != Request::kNoBounce) {
    const bool fetched = code == RODA_OK && request.kind == Request::Kind::kGet;
    if (fetched) std::memcpy(request.data, wires_->bounce(request.bounce), request.bytes);
    free_bounces_.push_back(std::exchange(request.bounce, Request::kNoBounce));
  }
  request.own.release();
  request.state = Request::State::kDone;
  request.code = code;
  request.message = std::move(message);
  if (!std::exchange(request.is_asked, false)) return;
  --link.asked;
  if (link.to_ask.empty() || link.life != Link::Life::kOpen) return;
  Request* next = link.to_ask.front();
  link.to_ask.pop_front();
  ask(*next);
}

// Hands out the request, or its end if it has one already.
std::int32_t Messages::hand_out(Request& request, Request** handle) {
  *handle = nullptr;
  if (request.state == Request::State::kDone) return test(&request);
  *handle = &request;
  return RODA_OK;
}

std::int32_t Messages::test(Request* request) {
  if (request->state != Request::State::kDone) {
    check_deadline(*request);
    return RODA_IN_PROGRESS;
  }
  const std::int32_t code = request->code;
  requests_.give_back(*request);
  if (code != RODA_OK) throw sdk::Failure(code, request->message, request->link->world_rank);
  return RODA_OK;
}

void Messages::check_deadline(const Request& request) const {
  if (timeout_ns_ == 0 || now_ns() < request.moved_ns + timeout_ns_) return;
  throw sdk::Failure(RODA_ERR_TIMEOUT,
                     "verbs: an operation of " + std::to_string(request.bytes) + " bytes with rank " +
                         std::to_string(request.link->world_rank) + " did not move for " +
                         std::to_string(timeout_ns_ / 1'000'000) + " ms",
                     request.link->world_rank);
}

bool Messages::touches(const void* base, std::size_t bytes) const {
  return std::any_of(requests_.all().begin(), requests_.all().end(),
                     [&](const auto& request) { return request->overlaps(base, bytes); });
}

void Messages::end_all(std::int32_t code, const std::string& message) {
  active_.clear();
  for (const auto& request : requests_.all()) {
    if (request->state != Request::State::kFree && request->state != Request::State::kDone) {
      request->is_asked = false;  // nobody else is to be asked
      finish(*request, code, message);
    }
  }
}

void Messages::end_those_of(const Link& link, std::int32_t code, const std::string& message) {
  std::erase_if(active_, [&](const Request* request) { return request->link == &link; });
  for (const auto& request : requests_.all()) {
    const bool is_live = request->state != Request::State::kFree && request->state != Request::State::kDone;
    if (is_live && request->link == &link) finish(*request, code, message);
  }
}

void Messages::forget() {
  for (const auto& request : requests_.all()) request->own.forget();
}

}  // namespace roda::verbs
