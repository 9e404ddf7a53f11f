// Tagged messages, and gets and puts on windows, of one group.
//
// Short messages travel in the ring. Long ones are announced there and stay in the sender's memory until the receive is
// posted; then the receiver copies them, from the sender's segment or by cross-memory attach, or where that is refused
// asks for them in pieces through the ring. Gets and puts go the same three ways. Nothing is ever streamed that has no
// place to go, so no message can block another's way.
//
// Threads: one at a time.
#pragma once

#include <roda/abi/transport.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "transports/shm/peer.h"
#include "transports/shm/request.h"
#include "transports/shm/ring.h"

namespace roda::shm {

class Group;

class Messages {
 public:
  explicit Messages(Group& group) : group_(group) {}

  // As the ABI's entries: RODA_OK or RODA_AGAIN, *request null when it is done already. Throws sdk::Failure.
  std::int32_t send(Peer& peer, std::uint64_t tag, const void* data, std::size_t bytes, Request** request);
  std::int32_t receive(Peer& peer, std::uint64_t tag, void* data, std::size_t bytes, Request** request);
  // `kind` is kGet or kPut.
  std::int32_t move(Request::Kind kind, Peer& peer, std::uint32_t slot, std::size_t offset, void* data,
                    std::size_t bytes, Request** request);
  std::int32_t test(Request* request);

  // Reads the rings and moves long messages on. Returns the number of things done.
  int progress();
  // Is there anything to read or to move?
  bool has_news();
  // True when a pending request touches the range.
  bool touches(const void* base, std::size_t bytes) const { return requests_.touches(base, bytes); }
  // Every pending request is done with this.
  void end_all(const sdk::Failure& cause);
  // Those that wait for this peer.
  void end_those_of(Peer& peer, const sdk::Failure& cause);

 private:
  int read_ring(Peer& peer);
  void handle(Peer& peer, const Record& record);
  void handle_message(Peer& peer, const Record& record);
  void handle_data(Peer& peer, const Record& record);
  void serve_get(Peer& peer, const Record& record);
  void serve_put(Peer& peer, const Record& record);

  Request& begin(Request::Kind kind, const Peer& peer, const void* data, std::size_t bytes, std::uint64_t tag = 0);
  // The whole of a short message has come.
  void deliver(Request& request, const std::byte* payload, std::size_t bytes);
  void begin_receive(Peer& peer, Request& request, const Record& announcement);
  void activate(Request& request, Request::Step step);
  bool pump(Request& request);
  bool stream(Peer& peer, Request& request);
  bool copy_slice(Peer& peer, Request& request);
  void check_deadline(Request& request);
  std::int32_t ask(Request::Kind kind, Peer& peer, std::uint32_t slot, std::size_t offset, void* data,
                   std::size_t bytes, Request** request);

  // Sends a record without payload, later if the ring is full.
  void answer(Peer& peer, const Record& record);
  bool flush_answers(Peer& peer);

  Group& group_;
  sdk::RequestTable<Request> requests_;
  std::vector<Request*> active_;  // kPulling, kPushing, kStreaming
};

}  // namespace roda::shm
