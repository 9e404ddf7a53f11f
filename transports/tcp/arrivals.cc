// What the receiver does, and every frame that comes.
#include <roda/sdk/error.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include "transports/tcp/context.h"
#include "transports/tcp/group.h"
#include "transports/tcp/messages.h"

namespace roda::tcp_transport {

std::int32_t Messages::receive(Peer& peer, std::uint64_t tag, void* data, std::size_t bytes, Request** request) {
  *request = nullptr;
  Request& receive = begin(Request::Kind::kReceive, peer, tag, data, bytes);
  if (meet_unexpected(receive)) return requests_.hand_out(receive, request);
  if (peer.is_gone) {
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

// Tells the sender where its data go.
void Messages::invite(Request& receive, Header header) {
  receive.is_addressed = true;
  ++receive.peer->long_receives;
  header.c = receive.id();
  post(*receive.peer, header);
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
                            peer.world_rank});
  }
  receive.partner = send;
  if (!receive.is_addressed) invite(receive, {.kind = Kind::kClear, .a = send});
  check_received(receive);
}

void Messages::check_received(Request& receive) {
  if (receive.is_matched && receive.arrived == receive.bytes) finish(receive);
}

sdk::Failure Messages::other_length(const Request& receive, std::size_t bytes) const {
  return group_.state().other_length(bytes, receive.bytes, receive.peer->rank, receive.peer->address);
}

void Messages::give_back_window(Peer& peer, std::size_t bytes) {
  peer.owed += window_cost(bytes);
  if (peer.owed >= peer.own_window / 4) post(peer, {.kind = Kind::kCredit});
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
      peer.text.resize(header.length);
      return reinterpret_cast<std::byte*>(peer.text.data());
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
      peer.has_left = true;
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

// It is complete and has met its receive.
void Messages::finish_unexpected(Peer& peer, Unexpected* message) {
  Request& receive = *message->claimed_by;
  const std::size_t bytes = message->bytes;
  if (bytes == receive.bytes && bytes > 0) std::memcpy(receive.data, message->data.get(), bytes);
  peer.receives.drop(message);
  give_back_window(peer, bytes);
  if (bytes == receive.bytes) return finish(receive);
  finish(receive, other_length(receive, bytes));
}

void Messages::lane_ended(Lane& lane) {
  Peer& peer = lane.peer();
  if (lane.index() == 0 && !peer.has_left) throw group_.lost(peer);
  if (std::any_of(peer.lanes.begin(), peer.lanes.end(), [](const auto& l) { return l->is_open(); })) return;
  if (!peer.has_left) throw group_.lost(peer);
  peer_gone(peer);
}

void Messages::peer_gone(Peer& peer) {
  peer.is_gone = peer.has_left = true;
  const sdk::Failure end = group_.lost(peer);
  requests_.for_each_pending([&](Request& request) {
    if (request.peer == &peer) finish(request, end);
  });
  peer.forget_pending();
}

}  // namespace roda::tcp_transport
