// Messages of a group: how sends and receives start.
#include "transports/ucx/errors.h"
#include "transports/ucx/group.h"

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

void Group::note(Request* request, ucs_status_ptr_t handle) {
  if (!UCS_PTR_IS_PTR(handle)) {
    leave_ucx(request, UCS_PTR_RAW_STATUS(handle), request->received);
  } else if (request->in_ucx != 0) {
    request->handle = handle;
  }
}

std::int32_t Group::keep(Request* started, Request** request) {
  if (!started->is_pending()) return collect(*started);
  *request = started;
  return RODA_OK;
}

std::int32_t Group::send(int to, std::uint64_t tag, const void* data, std::size_t bytes, const roda_memory* memory,
                         Request** request) {
  Peer& peer = admit(to);
  Request* sent = begin(Request::Kind::kSend, peer, data, bytes, memory);
  const std::uint64_t wire = tags_.fits(tag) ? tags_.plain(state_.rank(), tag) : number_for(peer, tag);
  ucp_request_param_t param = parameters(*sent, 0);
  param.cb.send = &Group::on_end;
  sent->received = bytes;
  note(sent, ucp_tag_send_nbx(peer.endpoint, data, bytes, wire, &param));
  return keep(sent, request);
}

// Only the callback tells how long the message was: UCX is told to call it even when the message is there already.
void Group::post_receive(Request* receive, std::uint64_t wire) {
  ucp_request_param_t param = parameters(*receive, UCP_OP_ATTR_FLAG_NO_IMM_CMPL);
  param.cb.recv = &Group::on_received;
  note(receive, ucp_tag_recv_nbx(worker_->get(), receive->data, receive->bytes, wire, ~std::uint64_t{0}, &param));
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

std::uint64_t Group::number_for(Peer& peer, std::uint64_t tag) {
  const std::uint64_t number = peer.numbers_used++;
  say(peer, Word::kNumber, tag, number);
  return tags_.numbered(state_.rank(), number);
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
  get->received = bytes;
  ucp_request_param_t param = parameters(*get, 0);
  param.cb.send = &Group::on_end;
  note(get, ucp_get_nbx(peer.endpoint, to, bytes, window.base + offset, window.key, &param));
  return keep(get, request);
}

std::int32_t Group::put(int to, std::uint32_t slot, std::size_t offset, const void* from, std::size_t bytes,
                        Request** request) {
  Peer& peer = admit(to);
  const RemoteWindow& window = remote_window(peer, slot, offset, bytes);
  if (bytes == 0) return RODA_OK;
  Request* put = begin(Request::Kind::kPut, peer, from, bytes, nullptr);
  put->received = bytes;
  put->in_ucx = 2;  // it has reached the peer's memory when the flush behind it has ended
  ucp_request_param_t param = parameters(*put, 0);
  param.cb.send = &Group::on_end;
  note(put, ucp_put_nbx(peer.endpoint, from, bytes, window.base + offset, window.key, &param));
  param = parameters(*put, 0);
  param.op_attr_mask &= ~static_cast<std::uint32_t>(UCP_OP_ATTR_FIELD_MEMORY_TYPE);
  param.cb.send = &Group::on_end;
  note(put, ucp_ep_flush_nbx(peer.endpoint, &param));
  return keep(put, request);
}

}  // namespace roda::ucx
