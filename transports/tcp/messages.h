// Tagged messages of one group. How they travel is told in tcp.h.
//
// One thread at a time.
#pragma once

#include <roda/sdk/matcher.hpp>

#include <deque>
#include <memory>

#include "plugins/base/address.h"
#include "transports/tcp/lane.h"

namespace roda::tcp_transport {

class Group;
class Context;

// A message that came before its receive.
struct Unexpected {
  std::uint64_t tag = 0;
  std::size_t bytes = 0;
  std::uint64_t announced_by = 0;     // the send's id; 0: the data are here
  std::unique_ptr<std::byte[]> data;  // of a short one
  bool is_complete = false;
  Request* claimed_by = nullptr;  // the receive that waits for the rest of it
};

// A receive that the peer has posted, and that no send of ours has met yet.
struct Ready {
  std::uint64_t tag = 0;
  std::size_t bytes = 0;
  std::uint64_t id = 0;
};

inline constexpr std::size_t kWorthCopying = 8 << 10;

// What a group knows of one other member.
struct Peer {
  // How it came to be out of reach.
  struct End {
    bool has_left = false;    // said so; what it sent before may still come
    bool is_gone = false;     // nothing will come any more
    int error = 0;            // errno of the connection that broke first
    std::string text;         // of its abort
    std::string unreachable;  // why there is no connection
  };

  Group* group = nullptr;
  int rank = 0;                              // in the group
  SocketAddress where;                       // it listens
  std::string address;                       // the same as a text
  bool is_sought = false;                    // where it listens is asked for
  sdk::ProgressLimit search;                 // on that
  std::size_t lane_count = 0;                // the same at both ends; 0: ourselves
  std::vector<std::unique_ptr<Lane>> lanes;  // from the first use on
  std::size_t eager_bytes = 0;               // the same at both ends

  // As the receiver.
  sdk::Matcher<Request, Unexpected> receives;
  std::size_t owed = 0;           // of the window, to be given back
  std::size_t own_window = 0;     // that the peer has of us, all of it
  std::size_t granted = 0;        // of that, what the peer may still use
  std::size_t announced = 0;      // of those that came before their receive
  std::size_t long_receives = 0;  // whose data may come at any time, on any lane

  // As the sender.
  sdk::Matcher<Request, Ready> sends;  // announced ones
  std::deque<Request*> streams;        // on their way, in order
  std::size_t window = 0;              // that we have of the peer
  std::size_t window_left = 0;
  std::size_t pending_sends = 0;

  std::size_t expected = 0;     // requests that wait for a frame of the peer
  std::uint64_t bytes_in = 0;   // ever
  std::uint64_t bytes_out = 0;  // ever
  End end;

  // All requests have ended: forgets those that waited.
  void forget_pending() {
    receives.forget_awaited();
    sends.forget_awaited();
    streams.clear();
  }
  // The next frame has probably more payload than is worth a second copy.
  bool expects_data() const {
    return long_receives > 0 || (!receives.awaited().empty() && receives.awaited().front()->bytes > kWorthCopying);
  }
  std::size_t lanes_to_poll() const { return long_receives > 0 ? lanes.size() : 1; }
};

class Messages {
 public:
  Messages(Context& context, Group& group) : context_(context), group_(group) {}

  // As the ABI's entries: RODA_OK or RODA_AGAIN, *request null when it is done already. Throws sdk::Failure.
  std::int32_t send(Peer& peer, std::uint64_t tag, const void* data, std::size_t bytes, Request** request);
  std::int32_t receive(Peer& peer, std::uint64_t tag, void* data, std::size_t bytes, Request** request);
  std::int32_t test(Request* request) {
    if (request->is_pending()) check_deadline(*request);
    return request->is_pending() ? RODA_IN_PROGRESS : requests_.collect(*request);
  }

  // True when a pending request touches the range.
  bool touches(const void* base, std::size_t bytes) const { return requests_.touches(base, bytes); }
  bool is_idle() const { return requests_.pending() == 0; }
  // Every pending request is done with this.
  void end_all(const sdk::Failure& cause) {
    requests_.for_each_pending([&](Request& request) { finish(request, cause); });
  }

  // --- for lanes ---
  // Where the payload goes, null to drop it. Throws sdk::Failure for a frame that makes no sense.
  std::byte* begin_frame(Lane& lane, const Header& header);
  void finish_frame(Lane& lane, const Lane::Arrival& arrival);
  // The connection is closed.
  void lane_ended(Lane& lane);
  // Nothing will come from the peer any more.
  void peer_gone(Peer& peer);
  // Puts the next piece of a long message into the outbox, if there is one and room.
  void refill(Lane& lane);
  void frame_written(const Frame& frame) {
    if (frame.request == nullptr) return;
    --frame.request->frames;
    check_sent(*frame.request);
  }

 private:
  Request& begin(Request::Kind kind, Peer& peer, std::uint64_t tag, const void* data, std::size_t bytes) {
    Request& request = requests_.take(data, bytes, tag);
    request.kind = kind;
    request.peer = &peer;
    if (kind == Request::Kind::kSend) ++peer.pending_sends;
    return request;
  }
  void finish(Request& request) {
    let_go(request);
    requests_.finish(request);
  }
  void finish(Request& request, const sdk::Failure& failure) {
    let_go(request);
    requests_.finish(request, failure);
  }
  void let_go(Request& request);
  void expect(Request& request);
  void cease(Request& request);
  // What the peer is told first on lane 0: by a flush; with the next progress.
  void queue(Peer& peer, Header header, Request* request) {
    header.credit = static_cast<std::uint32_t>(peer.owed);
    peer.granted += std::exchange(peer.owed, 0);
    if (request != nullptr) ++request->frames;
    peer.lanes.front()->outbox().push({header, header.kind == Kind::kEager ? request->data : nullptr, request});
  }
  void post(Peer& peer, const Header& header, Request* request = nullptr);
  void check_deadline(Request& request);

  // As the sender.
  void address(Request& send, std::size_t bytes, std::uint64_t receive);
  void check_sent(Request& send) {
    if (send.is_pending() && send.is_addressed && send.moved == send.bytes && send.frames == 0) finish(send);
  }
  // The send with that id if it waits for its receive; from now on it doesn't.
  Request* waiting_send(Peer& peer, std::uint64_t id) {
    Request* send = requests_.find_id(id);
    return send != nullptr && peer.sends.withdraw(send) ? send : nullptr;
  }
  // A receive of a long message was posted. Both sides pair long messages of one tag in order.
  void on_ready(Peer& peer, const Header& header) {
    const auto is_long = [&](const Request& send) { return send.bytes > peer.eager_bytes; };
    if (Request* send = peer.sends.claim(header.a, is_long)) return address(*send, header.b, header.c);
    Ready& ready = peer.sends.keep(header.a);
    ready.bytes = header.b;
    ready.id = header.c;
  }

  // As the receiver.
  bool meet_unexpected(Request& receive);
  std::byte* on_eager(Lane& lane, const Header& header);
  void on_announce(Peer& peer, const Header& header);
  std::byte* on_data(Lane& lane, const Header& header);
  void match(Request& receive, std::size_t bytes, std::uint64_t send);
  // Tells the sender where its data go.
  void invite(Request& receive, Header header) {
    receive.is_addressed = true;
    ++receive.peer->long_receives;
    header.c = receive.id();
    post(*receive.peer, header);
  }
  void check_received(Request& receive) {
    if (receive.is_matched && receive.arrived == receive.bytes) finish(receive);
  }
  // The message is complete and has met its receive.
  void finish_unexpected(Peer& peer, Unexpected* message) {
    Request& receive = *message->claimed_by;
    const std::size_t bytes = message->bytes;
    if (bytes == receive.bytes && bytes > 0) std::memcpy(receive.data, message->data.get(), bytes);
    peer.receives.drop(message);
    give_back_window(peer, bytes);
    if (bytes == receive.bytes) return finish(receive);
    finish(receive, other_length(receive, bytes));
  }
  void give_back_window(Peer& peer, std::size_t bytes) {
    peer.owed += window_cost(bytes);
    if (peer.owed >= peer.own_window / 4) post(peer, {.kind = Kind::kCredit});
  }
  sdk::Failure other_length(const Request& receive, std::size_t bytes) const;

  Context& context_;
  Group& group_;
  sdk::RequestTable<Request> requests_;
};

}  // namespace roda::tcp_transport
