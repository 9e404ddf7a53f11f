// What the sender does, and what both sides share.
#include "transports/tcp/messages.h"

#include <roda/sdk/error.hpp>

#include <algorithm>
#include <utility>

#include "transports/tcp/context.h"
#include "transports/tcp/group.h"

namespace roda::tcp_transport {

Request& Messages::begin(Request::Kind kind, Peer& peer, std::uint64_t tag, const void* data, std::size_t bytes) {
  Request& request = requests_.take();
  request.kind = kind;
  request.peer = &peer;
  request.tag = tag;
  request.data = static_cast<std::byte*>(const_cast<void*>(data));
  request.bytes = bytes;
  ++pending_;
  if (kind == Request::Kind::kSend) ++peer.pending_sends;
  return request;
}

void Messages::finish(Request& request, const Status& end) {
  Peer& peer = *request.peer;
  cease(request);
  --pending_;
  if (request.kind == Request::Kind::kSend) {
    --peer.pending_sends;
  } else {
    if (request.is_addressed) --peer.long_receives;
    for (const auto& lane : peer.lanes) {
      if (lane->arrival().request == &request) lane->drop_payload();
    }
  }
  request.state = Request::State::kDone;
  request.end = end;
}

// Hands out the request, or its end if it has one already.
std::int32_t Messages::hand_out(Request& request, Request** handle) {
  if (!request.is_pending()) return test(&request);
  *handle = &request;
  return RODA_OK;
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
  if (!lane.is_open()) return;  // the end of the connection ends the request too
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
    return hand_out(send, request);
  }
  post(peer, {.kind = Kind::kAnnounce, .a = tag, .b = bytes, .c = send.id()}, &send);
  const auto met = std::find_if(peer.ready.begin(), peer.ready.end(), [&](const Ready& r) { return r.tag == tag; });
  if (is_short || met == peer.ready.end()) {
    peer.waiting.push_back(&send);
    expect(send);
  } else {
    const Ready ready = *met;
    peer.ready.erase(met);
    address(send, ready.bytes, ready.id);
    peer.lanes.front()->flush();
  }
  return hand_out(send, request);
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

// The send with that id if it waits for its receive; taken out of the list.
Request* Messages::waiting_send(Peer& peer, std::uint64_t id) {
  const auto found = std::find_if(peer.waiting.begin(), peer.waiting.end(), [&](Request* r) { return r->id() == id; });
  if (found == peer.waiting.end()) return nullptr;
  Request* send = *found;
  peer.waiting.erase(found);
  return send;
}

// A receive of a long message was posted. Both sides pair long messages of one tag in order.
void Messages::on_ready(Peer& peer, const Header& header) {
  const auto is_partner = [&](Request* r) { return r->tag == header.a && r->bytes > peer.eager_bytes; };
  const auto found = std::find_if(peer.waiting.begin(), peer.waiting.end(), is_partner);
  if (found == peer.waiting.end()) {
    peer.ready.push_back({header.a, header.b, header.c});
    return;
  }
  Request* send = *found;
  peer.waiting.erase(found);
  address(*send, header.b, header.c);
}

std::int32_t Messages::test(Request* request) {
  if (request->is_pending()) check_deadline(*request);
  if (request->is_pending()) return RODA_IN_PROGRESS;
  const Status end = std::move(request->end);
  requests_.give_back(*request);
  if (!end.ok()) throw sdk::Failure(end.code(), end.message(), end.rank());
  return RODA_OK;
}

// An operation makes progress while its direction of the traffic with its peer does: it may stand in a queue.
void Messages::check_deadline(Request& request) {
  const std::uint64_t limit = group_.timeout_ns();
  if (limit == 0) return;
  Peer& peer = *request.peer;
  const bool is_send = request.kind == Request::Kind::kSend;
  const std::uint64_t traffic = is_send && request.is_addressed ? peer.bytes_out : peer.bytes_in;
  const std::uint64_t now = now_ns();
  if (request.looked_at_ns == 0 || request.traffic_then != traffic) {
    request.traffic_then = traffic;
    request.looked_at_ns = now;
  } else if (now - request.looked_at_ns > limit) {
    group_.fail({RODA_ERR_TIMEOUT,
                 std::string("tcp: ") + (is_send ? "a message to " : "a message from ") + group_.describe(peer) +
                     " did not move for " + std::to_string(limit / 1'000'000) +
                     " ms. The rank may be stopped or unreachable; raise HOROVOD_GLOO_TIMEOUT_SECONDS if it is only "
                     "slow",
                 peer.world_rank});
  }
}

bool Messages::touches(const void* base, std::size_t bytes) const {
  return std::any_of(requests_.all().begin(), requests_.all().end(),
                     [&](const auto& request) { return request->overlaps(base, bytes); });
}

void Messages::end_all(const Status& cause) {
  for (const auto& request : requests_.all()) {
    if (request->is_pending()) finish(*request, cause);
  }
}

}  // namespace roda::tcp_transport
