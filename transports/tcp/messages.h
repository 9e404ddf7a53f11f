// Tagged messages of one group. How they travel is told in wire.h.
//
// One thread at a time.
#pragma once

#include <roda/abi/transport.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "transports/tcp/lane.h"
#include "transports/tcp/peer.h"
#include "transports/tcp/request.h"

namespace roda::tcp_transport {

class Context;
class Group;

class Messages {
 public:
  Messages(Context& context, Group& group) : context_(context), group_(group) {}

  // As the ABI's entries: RODA_OK or RODA_AGAIN, *request null when it is done already. Throws sdk::Failure.
  std::int32_t send(Peer& peer, std::uint64_t tag, const void* data, std::size_t bytes, Request** request);
  std::int32_t receive(Peer& peer, std::uint64_t tag, void* data, std::size_t bytes, Request** request);
  std::int32_t test(Request* request);

  // True when a pending request touches the range.
  bool touches(const void* base, std::size_t bytes) const { return requests_.touches(base, bytes); }
  bool is_idle() const { return requests_.pending() == 0; }
  // Every pending request is done with this.
  void end_all(const sdk::Failure& cause);

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
  void frame_written(const Frame& frame);

 private:
  Request& begin(Request::Kind kind, Peer& peer, std::uint64_t tag, const void* data, std::size_t bytes);
  void finish(Request& request);
  void finish(Request& request, const sdk::Failure& failure);
  void let_go(Request& request);
  void expect(Request& request);
  void cease(Request& request);
  // What the peer is told first on lane 0: by a flush; with the next progress.
  void queue(Peer& peer, Header header, Request* request);
  void post(Peer& peer, const Header& header, Request* request = nullptr);
  void check_deadline(Request& request);

  // As the sender.
  void address(Request& send, std::size_t bytes, std::uint64_t receive);
  void check_sent(Request& send);
  Request* waiting_send(Peer& peer, std::uint64_t id);
  void on_ready(Peer& peer, const Header& header);

  // As the receiver.
  bool meet_unexpected(Request& receive);
  std::byte* on_eager(Lane& lane, const Header& header);
  void on_announce(Peer& peer, const Header& header);
  std::byte* on_data(Lane& lane, const Header& header);
  void match(Request& receive, std::size_t bytes, std::uint64_t send);
  void invite(Request& receive, Header header);
  void check_received(Request& receive);
  void finish_unexpected(Peer& peer, Unexpected* message);
  void give_back_window(Peer& peer, std::size_t bytes);
  sdk::Failure other_length(const Request& receive, std::size_t bytes) const;

  Context& context_;
  Group& group_;
  sdk::RequestTable<Request> requests_;
};

}  // namespace roda::tcp_transport
