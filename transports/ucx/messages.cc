// Messages of a group: how sends and receives start.

#include "transports/ucx/group.h"
#include "transports/ucx/library.h"

namespace roda::ucx {
namespace {

ucp_request_param_t parameters(const Request& request, std::uint32_t fields) {
  ucp_request_param_t param{};
  param.op_attr_mask =
      fields | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.user_data = const_cast<Request*>(&request);
  param.memory_type = request.type;
  if (request.memory != nullptr) {
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
    param.memh = request.memory;
  }
  return param;
}

// A shorter message never comes by rendezvous, where the receiver's word to the sender is the last of it.
constexpr std::size_t kLeastRendezvous = 1024;
const char* name(Request::Kind kind) {
  constexpr const char* kNames[] = {"a message to", "a message from", "a read from the window of",
                                    "a write to the window of"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace

Request* Group::begin(Request::Kind kind, Peer& peer, const void* data, std::size_t bytes, const roda_memory* memory) {
  const ucs_memory_type_t type = memory == nullptr || memory->kind == RODA_MEMORY_HOST
                                     ? UCS_MEMORY_TYPE_HOST
                                     : memory_type(*library_, memory->kind);
  Request* request = &requests_.take(data, bytes);
  request->kind = kind;
  request->peer = &peer;
  request->type = type;
  request->in_ucx = 1;
  if (memory != nullptr) request->memory = memories_->find(data, bytes);
  return request;
}

std::int32_t Group::send(int to, std::uint64_t tag, const void* data, std::size_t bytes, const roda_memory* memory,
                         Request** request) {
  Peer& peer = admit(to);
  Request* sent = begin(Request::Kind::kSend, peer, data, bytes, memory);
  const std::uint64_t wire = tags_.fits(tag) ? tags_.plain(state_.rank(), tag) : number_for(peer, tag);
  ucp_request_param_t param = parameters(*sent, 0);
  param.cb.send = &Group::on_end;
  note(sent, ucp.tag_send_nbx(peer.endpoint, data, bytes, wire, &param));
  return keep(sent, request);
}

// Only the callback tells how long the message was: UCX is told to call it even when the message is there already.
void Group::post_receive(Request* receive, std::uint64_t wire) {
  ucp_request_param_t param = parameters(*receive, UCP_OP_ATTR_FLAG_NO_IMM_CMPL);
  param.cb.recv = &Group::on_received;
  note(receive, ucp.tag_recv_nbx(worker_->get(), receive->data, receive->bytes, wire, ~std::uint64_t{0}, &param));
}

std::int32_t Group::receive(int from, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory* memory,
                            Request** request) {
  Peer& peer = admit(from);
  Request* receive = begin(Request::Kind::kReceive, peer, data, bytes, memory);
  receive->tag = tag;
  if (tags_.fits(tag)) {
    post_receive(receive, tags_.plain(from, tag));
    return keep(receive, request);
  }
  NumberedTag& numbered = peer.numbered[tag];
  if (numbered.numbers.empty()) {
    receive->in_ucx = 0;
    receive->is_parked = true;
    numbered.parked.push_back(receive);
    *request = receive;
    return RODA_OK;
  }
  const std::uint64_t number = numbered.numbers.front();
  numbered.numbers.pop_front();
  if (numbered.numbers.empty()) peer.numbered.erase(tag);
  post_receive(receive, tags_.numbered(from, number));
  return keep(receive, request);
}

// Called by UCX's progress: posting a receive there is allowed, ending one for the caller isn't needed.
void Group::number_arrived(Peer& peer, std::uint64_t tag, std::uint64_t number) {
  NumberedTag& numbered = peer.numbered[tag];
  if (numbered.parked.empty()) {
    numbered.numbers.push_back(number);
    return;
  }
  Request* receive = numbered.parked.front();
  numbered.parked.pop_front();
  if (numbered.parked.empty()) peer.numbered.erase(tag);
  receive->is_parked = false;
  receive->in_ucx = 1;
  post_receive(receive, tags_.numbered(peer.rank, number));
}

std::int32_t Group::get(int from, std::uint32_t slot, std::size_t offset, void* to, std::size_t bytes,
                        Request** request) {
  Peer& peer = admit(from);
  const RemoteWindow& window = remote_window(peer, slot, offset, bytes);
  if (bytes == 0) return RODA_OK;
  Request* get = begin(Request::Kind::kGet, peer, to, bytes, nullptr);
  ucp_request_param_t param = parameters(*get, 0);
  param.cb.send = &Group::on_end;
  note(get, ucp.get_nbx(peer.endpoint, to, bytes, window.base + offset, window.key, &param));
  return keep(get, request);
}

std::int32_t Group::put(int to, std::uint32_t slot, std::size_t offset, const void* from, std::size_t bytes,
                        Request** request) {
  Peer& peer = admit(to);
  const RemoteWindow& window = remote_window(peer, slot, offset, bytes);
  if (bytes == 0) return RODA_OK;
  Request* put = begin(Request::Kind::kPut, peer, from, bytes, nullptr);
  put->in_ucx = 2;  // it has reached the peer's memory when the flush behind it has ended
  ucp_request_param_t param = parameters(*put, 0);
  param.cb.send = &Group::on_end;
  note(put, ucp.put_nbx(peer.endpoint, from, bytes, window.base + offset, window.key, &param));
  param = parameters(*put, 0);
  param.op_attr_mask &= ~static_cast<std::uint32_t>(UCP_OP_ATTR_FIELD_MEMORY_TYPE);
  param.cb.send = &Group::on_end;
  note(put, ucp.ep_flush_nbx(peer.endpoint, &param));
  return keep(put, request);
}

// How requests end.
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

// With code RODA_OK when it went well.
sdk::Failure Group::end_of(const Request& request) const {
  const Peer& peer = *request.peer;
  if (request.status == UCS_OK && request.received == request.bytes) return {RODA_OK, {}};
  if (request.status == UCS_OK) return state_.other_length(request.received, request.bytes, peer.rank);
  if (request.status == UCS_ERR_MESSAGE_TRUNCATED) {
    return state_.fault(RODA_ERR_INVALID, peer.rank,
                        "sent more than the " + std::to_string(request.bytes) +
                            " bytes that were expected: the ranks disagree on what they do");
  }
  if (state_.is_broken()) return state_.cause();
  if (peer.has_left) return state_.has_left(peer.rank);
  return failure(request.status, name(request.kind) + (" " + describe(peer)) + " failed", peer.world_rank);
}

void Group::window_open(std::uint32_t slot, void* base, std::size_t bytes, const roda_memory* memory) {
  if (!state_.works()) refuse(state_.rank());
  state_.check_index(slot, kWindows, "window");
  window_close(slot);
  if (bytes == 0) return;
  Window& window = windows_[slot];
  ucp_mem_h registered = memories_->find(base, bytes);
  if (registered == nullptr) {
    const int32_t kind = memory == nullptr ? static_cast<int32_t>(RODA_MEMORY_HOST) : memory->kind;
    registered = window.own = library_->map(&base, bytes, memory_type(*library_, kind));
  }
  window.key = library_->pack_key(registered);
  window.base = base;
  window.bytes = bytes;
}

RemoteWindow& Group::remote_window(Peer& peer, std::uint32_t slot, std::size_t offset, std::size_t bytes) {
  state_.check_index(slot, kWindows, "window");
  RemoteWindow& window = peer.windows[slot];
  if (window.key == nullptr) {
    throw state_.fault(RODA_ERR_PRECONDITION, peer.rank,
                       "has sent no signal since it opened window " + std::to_string(slot));
  }
  if (offset > window.bytes || bytes > window.bytes - offset) {
    throw state_.fault(RODA_ERR_INVALID, peer.rank,
                       "has only " + std::to_string(window.bytes) + " bytes open in window " + std::to_string(slot));
  }
  return window;
}

}  // namespace roda::ucx
