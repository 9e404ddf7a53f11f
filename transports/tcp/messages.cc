// What the sender does, and what both sides share.
#include "transports/tcp/messages.h"

#include <utility>

#include "transports/tcp/context.h"
#include "transports/tcp/group.h"

namespace roda::tcp_transport {

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

void Messages::expect(Request& request) {
  request.is_expected = true;
  if (request.peer->expected++ == 0) context_.expect(*request.peer);
}

void Messages::cease(Request& request) {
  if (!std::exchange(request.is_expected, false)) return;
  if (--request.peer->expected == 0) context_.cease(*request.peer);
}

void Messages::post(Peer& peer, const Header& header, Request* request) {
  Lane& lane = *peer.lanes.front();
  if (lane.is_closed()) return;  // the end of the connection ends the request too
  queue(peer, header, request);
  if (!lane.is_blocked()) context_.mark_dirty(lane);
}

std::int32_t Messages::send(Peer& peer, std::uint64_t tag, const void* data, std::size_t bytes, Request** request) {
  *request = nullptr;
  if (peer.end.has_left) throw group_.lost(peer);
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

// An operation makes progress while its direction of the traffic with its peer does: it may stand in a queue.
void Messages::check_deadline(Request& request) {
  const Peer& peer = *request.peer;
  const bool is_send = request.kind == Request::Kind::kSend;
  const std::uint64_t traffic = is_send && request.is_addressed ? peer.bytes_out : peer.bytes_in;
  if (!request.limit.is_over(traffic, group_.state().timeout_ns())) return;
  group_.fail(group_.state().stood_still(is_send ? "a message to" : "a message from", peer.rank, peer.address));
}

// What the receiver does, and every frame that comes.
std::int32_t Messages::receive(Peer& peer, std::uint64_t tag, void* data, std::size_t bytes, Request** request) {
  *request = nullptr;
  Request& receive = begin(Request::Kind::kReceive, peer, tag, data, bytes);
  if (meet_unexpected(receive)) return requests_.hand_out(receive, request);
  if (peer.end.is_gone) {
    let_go(receive);
    requests_.give_back(receive);
    throw group_.lost(peer);
  }
  peer.receives.await(&receive);
  expect(receive);
  if (bytes > peer.eager_bytes) invite(receive, {.kind = Kind::kReady, .a = tag, .b = bytes});
  return requests_.hand_out(receive, request);
}

// True when the message, or its announcement, or the first part of it, had come before.
bool Messages::meet_unexpected(Request& receive) {
  Peer& peer = *receive.peer;
  Unexpected* found = peer.receives.find(receive.tag, [](const Unexpected& u) { return u.claimed_by == nullptr; });
  if (found == nullptr) return false;
  if (found->announced_by != 0) {
    expect(receive);
    --peer.announced;
    match(receive, found->bytes, found->announced_by);
    peer.receives.drop(found);
    return true;
  }
  found->claimed_by = &receive;
  receive.is_matched = true;
  if (found->is_complete) {
    finish_unexpected(peer, found);
  } else {
    expect(receive);
  }
  return true;
}

// The announcement of the message that this receive is for.
void Messages::match(Request& receive, std::size_t bytes, std::uint64_t send) {
  Peer& peer = *receive.peer;
  receive.is_matched = true;
  if (bytes != receive.bytes) {
    post(peer, {.kind = Kind::kRefuse, .a = send});
    return finish(receive, other_length(receive, bytes));
  }
  if (receive.partner != 0 && receive.partner != send) {
    return finish(receive, {RODA_ERR_INVALID,
                            "tcp: " + group_.describe(peer) + " and this rank disagree on the messages of one tag",
                            group_.state().world_rank(peer.rank)});
  }
  receive.partner = send;
  if (!receive.is_addressed) invite(receive, {.kind = Kind::kClear, .a = send});
  check_received(receive);
}

sdk::Failure Messages::other_length(const Request& receive, std::size_t bytes) const {
  return group_.state().other_length(bytes, receive.bytes, receive.peer->rank, receive.peer->address);
}

std::byte* Messages::begin_frame(Lane& lane, const Header& header) {
  Peer& peer = lane.peer();
  if (header.credit > peer.window - peer.window_left) throw group_.nonsense(peer);
  peer.window_left += header.credit;
  const bool has_payload = header.kind == Kind::kEager || header.kind == Kind::kData || header.kind == Kind::kAbort;
  if ((header.length > 0 && !has_payload) || (lane.index() > 0 && header.kind != Kind::kData)) {
    throw group_.nonsense(peer);
  }
  Request* send = nullptr;
  switch (header.kind) {
    case Kind::kEager:
      return on_eager(lane, header);
    case Kind::kData:
      return on_data(lane, header);
    case Kind::kAbort:
      if (header.length > kMostText) throw group_.nonsense(peer);
      peer.end.text.resize(header.length);
      return reinterpret_cast<std::byte*>(peer.end.text.data());
    case Kind::kAnnounce:
      on_announce(peer, header);
      return nullptr;
    case Kind::kReady:
      on_ready(peer, header);
      return nullptr;
    case Kind::kClear:
      send = waiting_send(peer, header.a);
      if (send != nullptr) address(*send, send->bytes, header.c);
      return nullptr;
    case Kind::kRefuse:
      send = waiting_send(peer, header.a);
      if (send != nullptr) address(*send, send->bytes + 1, 0);
      return nullptr;
    case Kind::kLeave:
      peer.end.has_left = true;
      return nullptr;
    case Kind::kCredit:
      return nullptr;
  }
  throw group_.nonsense(peer);
}

std::byte* Messages::on_eager(Lane& lane, const Header& header) {
  Peer& peer = lane.peer();
  if (header.length > peer.eager_bytes || window_cost(header.length) > peer.granted) throw group_.nonsense(peer);
  peer.granted -= window_cost(header.length);
  Request* receive = peer.receives.claim(header.a);
  if (receive == nullptr) {
    Unexpected& message = peer.receives.keep(header.a);
    message.bytes = header.length;
    message.data = std::make_unique_for_overwrite<std::byte[]>(header.length);
    lane.arrival().unexpected = &message;
    return message.data.get();
  }
  receive->is_matched = true;
  if (receive->bytes != header.length) {
    give_back_window(peer, header.length);
    finish(*receive, other_length(*receive, header.length));
    return nullptr;
  }
  lane.arrival().request = receive;
  return receive->data;
}

void Messages::on_announce(Peer& peer, const Header& header) {
  if (Request* receive = peer.receives.claim(header.a)) return match(*receive, header.b, header.c);
  if (header.c == 0 || ++peer.announced > kMostSends) throw group_.nonsense(peer);
  Unexpected& message = peer.receives.keep(header.a);
  message.bytes = header.b;
  message.announced_by = header.c;
}

// What is addressed to a receive that is over is dropped: it ended because the ranks disagreed.
std::byte* Messages::on_data(Lane& lane, const Header& header) {
  Peer& peer = lane.peer();
  Request* receive = requests_.find_id(header.a);
  if (receive == nullptr || receive->kind != Request::Kind::kReceive || receive->peer != &peer) return nullptr;
  const bool fits = header.b <= receive->bytes && header.length <= receive->bytes - header.b &&
                    header.length <= receive->bytes - receive->moved;
  if (!fits || !receive->is_addressed) throw group_.nonsense(peer);
  if (receive->partner != 0 && receive->partner != header.c) {
    peer.receives.withdraw(receive);
    match(*receive, receive->bytes, header.c);
    return nullptr;
  }
  receive->partner = header.c;
  receive->moved += header.length;
  lane.arrival().request = receive;
  return receive->data + header.b;
}

void Messages::finish_frame(Lane& lane, const Lane::Arrival& arrival) {
  Peer& peer = lane.peer();
  const Header& header = arrival.header;
  if (header.kind == Kind::kAbort) throw group_.told_to_abort(peer, header);
  if (arrival.unexpected != nullptr) {
    arrival.unexpected->is_complete = true;
    if (arrival.unexpected->claimed_by != nullptr) finish_unexpected(peer, arrival.unexpected);
  }
  if (arrival.request == nullptr) return;
  arrival.request->arrived += header.length;
  if (header.kind == Kind::kEager) give_back_window(peer, header.length);
  check_received(*arrival.request);
}

void Messages::lane_ended(Lane& lane) {
  Peer& peer = lane.peer();
  if (lane.index() == 0 && !peer.end.has_left) throw group_.lost(peer);
  if (std::any_of(peer.lanes.begin(), peer.lanes.end(), [](const auto& l) { return l->is_open(); })) return;
  if (!peer.end.has_left) throw group_.lost(peer);
  peer_gone(peer);
}

void Messages::peer_gone(Peer& peer) {
  peer.end.is_gone = peer.end.has_left = true;
  const sdk::Failure end = group_.lost(peer);
  requests_.for_each_pending([&](Request& request) {
    if (request.peer == &peer) finish(request, end);
  });
  peer.forget_pending();
}

}  // namespace roda::tcp_transport
