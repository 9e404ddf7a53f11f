// How requests end.
#include <string>

#include "transports/ucx/errors.h"
#include "transports/ucx/group.h"

namespace roda::ucx {
namespace {

// A shorter message never comes by rendezvous, where the receiver's word to the sender is the last of it.
constexpr std::size_t kLeastRendezvous = 1024;
const char* name(Request::Kind kind) {
  constexpr const char* kNames[] = {"a message to ", "a message from ", "a read from the window of ",
                                    "a write to the window of "};
  return kNames[static_cast<int>(kind)];
}

}  // namespace

void Group::leave_ucx(Request* request, ucs_status_t status, std::size_t received) {
  --request->in_ucx;
  request->handle = nullptr;
  if (request->status == UCS_OK) request->status = status;
  request->received = received;
  Peer& peer = *request->peer;
  ++peer.moves;
  if (request->kind != Request::Kind::kReceive || received < kLeastRendezvous || !peer.lanes.some_direct) return;
  peer.is_owed = peer.group->someone_is_owed_ = true;
}

void Group::on_end(void* handle, ucs_status_t status, void* user) {
  auto* request = static_cast<Request*>(user);
  leave_ucx(request, status, request->bytes);
  ucp_request_free(handle);
}

void Group::on_received(void* handle, ucs_status_t status, const ucp_tag_recv_info_t* info, void* user) {
  leave_ucx(static_cast<Request*>(user), status, info->length);
  ucp_request_free(handle);
}

std::int32_t Group::test(Request* request) {
  if (is_broken() && worker_ != nullptr) finish_abort();
  if (request->in_ucx != 0 || request->is_parked) {
    if (!is_broken()) watch_time(*request);
    return RODA_IN_PROGRESS;
  }
  const sdk::Failure end = end_of(*request);
  release(request);
  if (end.code() != RODA_OK) throw end;
  return RODA_OK;
}

void Group::release(Request* request) {
  live_[request->index] = live_.back();
  live_[request->index]->index = request->index;
  live_.pop_back();
  pool_.give_back(request);
}

// With code RODA_OK when it went well.
sdk::Failure Group::end_of(const Request& request) const {
  const Peer& peer = *request.peer;
  if (request.status == UCS_OK && request.received == request.bytes) return {RODA_OK, {}};
  if (request.status == UCS_ERR_MESSAGE_TRUNCATED || request.status == UCS_OK) {
    const std::string sent =
        request.status == UCS_OK ? std::to_string(request.received) : "more than " + std::to_string(request.bytes);
    return {RODA_ERR_INVALID,
            "ucx: " + describe(peer) + " sent " + sent + " bytes where " + std::to_string(request.bytes) +
                " were expected: the ranks differ in what they do",
            peer.world_rank};
  }
  roda_error first{};
  if (cause_.fill(&first) != RODA_OK) return sdk::Failure(first);
  if (peer.has_left) return {RODA_ERR_PEER, "ucx: " + describe(peer) + " has left", peer.world_rank};
  return failure(request.status, name(request.kind) + describe(peer) + " failed", peer.world_rank);
}

// The limit counts from when anything moved between this rank and the peer.
void Group::watch_time(Request& request) {
  if (timeout_ns_ == 0) return;
  const std::uint64_t now = now_ns();
  if (request.seen_ns == 0 || request.seen_moves != request.peer->moves) {
    request.seen_ns = now;
    request.seen_moves = request.peer->moves;
  }
  if (now - request.seen_ns < timeout_ns_) return;
  const Peer& peer = *request.peer;
  abort({RODA_ERR_TIMEOUT,
         std::string("ucx: ") + name(request.kind) + describe(peer) + " made no progress for " +
             std::to_string(timeout_ns_ / 1'000'000'000) +
             " s; if the rank is merely slow, raise HOROVOD_GLOO_TIMEOUT_SECONDS",
         peer.world_rank});
}

}  // namespace roda::ucx
