// How requests end.
#include <string>

#include "transports/ucx/errors.h"
#include "transports/ucx/group.h"

namespace roda::ucx {
namespace {

// A shorter message never comes by rendezvous, where the receiver's word to the sender is the last of it.
constexpr std::size_t kLeastRendezvous = 1024;
const char* name(Request::Kind kind) {
  constexpr const char* kNames[] = {"a message to", "a message from", "a read from the window of",
                                    "a write to the window of"};
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
  if (request->in_ucx == 0) peer.group->requests_.finish(*request);
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
  if (state_.is_broken() && worker_ != nullptr) finish_abort();
  if (!request->is_pending()) return collect(*request);
  const Peer& peer = *request->peer;
  // The limit counts from when anything moved between this rank and the peer.
  if (!state_.is_broken() && request->limit.is_over(peer.moves, state_.timeout_ns())) {
    abort(state_.stood_still(name(request->kind), peer.rank));
  }
  return RODA_IN_PROGRESS;
}

std::int32_t Group::collect(Request& request) {
  const sdk::Failure end = end_of(request);
  requests_.give_back(request);
  if (end.code() != RODA_OK) throw end;
  return RODA_OK;
}

// With code RODA_OK when it went well.
sdk::Failure Group::end_of(const Request& request) const {
  const Peer& peer = *request.peer;
  if (request.status == UCS_OK && request.received == request.bytes) return {RODA_OK, {}};
  if (request.status == UCS_OK) return state_.other_length(request.received, request.bytes, peer.rank);
  if (request.status == UCS_ERR_MESSAGE_TRUNCATED) {
    return {RODA_ERR_INVALID,
            "ucx: " + describe(peer) + " sent more than the " + std::to_string(request.bytes) +
                " bytes that were expected: the ranks disagree on what they do",
            peer.world_rank};
  }
  if (state_.is_broken()) return state_.cause();
  if (peer.has_left) return {RODA_ERR_PEER, "ucx: " + describe(peer) + " has left", peer.world_rank};
  return failure(request.status, name(request.kind) + (" " + describe(peer)) + " failed", peer.world_rank);
}

}  // namespace roda::ucx
