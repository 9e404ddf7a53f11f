// What the sender does, and what both sides share.
#include "transports/tcp/messages.h"

#include <roda/sdk/error.hpp>

#include <algorithm>
#include <utility>

#include "transports/tcp/context.h"
#include "transports/tcp/group.h"

namespace roda::tcp_transport {

Request& Messages::begin(Request::Kind kind, Peer& peer, std::uint64_t tag, const void* data, std::size_t bytes) {
  Request& request = requests_.take(data, bytes, tag);
  request.kind = kind;
  request.peer = &peer;
  if (kind == Request::Kind::kSend) ++peer.pending_sends;
  return request;
}

void Messages::let_go(Request& request) {
  Peer& peer = *request.peer;
  cease(request);
  if (request.kind == Request::Kind::kSend) {
    --peer.pending_sends;
    return;
  }
  if (request.is_addressed) --peer.long_receives;
  for (const auto& lane : peer.lanes) {
    if (lane->arrival().request == &request) lane->drop_payload();
  }
}

void Messages::finish(Request& request) {
  let_go(request);
  requests_.finish(request);
}

void Messages::finish(Request& request, const sdk::Failure& failure) {
  let_go(request);
  requests_.finish(request, failure);
}

void Messages::expect(Request& request) {
  request.is_expected = true;
  if (request.peer->expected++ == 0) context_.expect(*request.peer);
}

void Messages::cease(Request& request) {
  if (!std::exchange(request.is_expected, false)) return;
  if (--request.peer->expected == 0) context_.cease(*request.peer);
}

void Messages::queue(Peer& peer, Header header, Request* request) {
  header.credit = static_cast<std::uint32_t>(peer.owed);
  peer.granted += std::exchange(peer.owed, 0);
  if (request != nullptr) ++request->frames;
  peer.lanes.front()->outbox().push({header, header.kind == Kind::kEager ? request->data : nullptr, request});
}

void Messages::post(Peer& peer, const Header& header, Request* request) {
  Lane& lane = *peer.lanes.front();
  if (lane.is_closed()) return;  // the end of the connection ends the request too
  queue(peer, header, request);
  if (!lane.is_blocked()) context_.mark_dirty(lane);
}

std::int32_t Messages::send(Peer& peer, std::uint64_t tag, const void* data, std::size_t bytes, Request** request) {
  *request = nullptr;
  if (peer.has_left) throw group_.lost(peer);
  if (peer.pending_sends >= kMostSends) return RODA_AGAIN;
  Request& send = begin(Request::Kind::kSend, peer, tag, data, bytes);
  const bool is_short = bytes <= peer.eager_bytes;
  if (is_short && window_cost(bytes) <= peer.window_left) {
    peer.window_left -= window_cost(bytes);
    send.is_addressed = true;
    send.moved = bytes;
    queue(peer, {.kind = Kind::kEager, .length = static_cast<std::uint32_t>(bytes), .a = tag}, &send);
    peer.lanes.front()->flush();
    return requests_.hand_out(send, request);
  }
  post(peer, {.kind = Kind::kAnnounce, .a = tag, .b = bytes, .c = send.id()}, &send);
  if (const Ready* ready = is_short ? nullptr : peer.sends.find(tag)) {
    address(send, ready->bytes, ready->id);
    peer.sends.drop(ready);
    peer.lanes.front()->flush();
  } else {
    peer.sends.await(&send);
    expect(send);
  }
  return requests_.hand_out(send, request);
}

// Where the message goes is known. With another length expected there it goes nowhere: the announcement says so to the
// receiver, whose error it is.
void Messages::address(Request& send, std::size_t bytes, std::uint64_t receive) {
  cease(send);
  send.is_addressed = true;
  send.partner = receive;
  if (bytes != send.bytes || bytes == 0) {
    send.moved = send.bytes;
    return check_sent(send);
  }
  Peer& peer = *send.peer;
  peer.streams.push_back(&send);
  for (const auto& lane : peer.lanes) {
    if (lane->is_open() && !lane->is_blocked()) context_.mark_dirty(*lane);
  }
}

void Messages::check_sent(Request& send) {
  if (send.is_pending() && send.is_addressed && send.moved == send.bytes && send.frames == 0) finish(send);
}

void Messages::refill(Lane& lane) {
  Peer& peer = lane.peer();
  const std::size_t chunk = context_.settings().chunk_bytes;
  while (!peer.streams.empty() && lane.outbox().bytes() < chunk) {
    Request& send = *peer.streams.front();
    const std::size_t length = std::min(chunk, send.bytes - send.moved);
    const Header header{.kind = Kind::kData,
                        .length = static_cast<std::uint32_t>(length),
                        .a = send.partner,
                        .b = send.moved,
                        .c = send.id()};
    lane.outbox().push({header, send.data + send.moved, &send});
    ++send.frames;
    send.moved += length;
    if (send.moved == send.bytes) peer.streams.pop_front();
  }
}

void Messages::frame_written(const Frame& frame) {
  if (frame.request == nullptr) return;
  --frame.request->frames;
  check_sent(*frame.request);
}

// The send with that id if it waits for its receive; from now on it doesn't.
Request* Messages::waiting_send(Peer& peer, std::uint64_t id) {
  Request* send = requests_.find_id(id);
  return send != nullptr && peer.sends.withdraw(send) ? send : nullptr;
}

// A receive of a long message was posted. Both sides pair long messages of one tag in order.
void Messages::on_ready(Peer& peer, const Header& header) {
  const auto is_long = [&](const Request& send) { return send.bytes > peer.eager_bytes; };
  if (Request* send = peer.sends.claim(header.a, is_long)) return address(*send, header.b, header.c);
  Ready& ready = peer.sends.keep(header.a);
  ready.bytes = header.b;
  ready.id = header.c;
}

std::int32_t Messages::test(Request* request) {
  if (request->is_pending()) check_deadline(*request);
  return request->is_pending() ? RODA_IN_PROGRESS : requests_.collect(*request);
}

// An operation makes progress while its direction of the traffic with its peer does: it may stand in a queue.
void Messages::check_deadline(Request& request) {
  const Peer& peer = *request.peer;
  const bool is_send = request.kind == Request::Kind::kSend;
  const std::uint64_t traffic = is_send && request.is_addressed ? peer.bytes_out : peer.bytes_in;
  if (!request.limit.is_over(traffic, group_.state().timeout_ns())) return;
  group_.fail(group_.state().stood_still(is_send ? "a message to" : "a message from", peer.rank, peer.address));
}

void Messages::end_all(const sdk::Failure& cause) {
  requests_.for_each_pending([&](Request& request) { finish(request, cause); });
}

}  // namespace roda::tcp_transport
