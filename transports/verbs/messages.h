// Tagged messages, and gets and puts, of one group.
//
// A short message travels with its record and is done at once. A long one is written by the sender straight to where
// the receiver wants it: the receiver says where (kReady) as soon as the receive is posted, the sender writes on all
// rails, and the last write on each rail announces itself. A sender that does not know where yet announces its message
// (kAnnounce), so that it keeps its place among short ones of the same tag, and so that a wrong length is noticed.
// Nothing is ever sent that has no place to go, so no message can block another's way.
//
// Threads: one at a time. Throws sdk::Failure.
#pragma once

#include <roda/sdk/group_state.hpp>

#include "transports/verbs/link.h"
#include "transports/verbs/memory.h"
#include "transports/verbs/wires.h"

namespace roda::verbs {

class Messages {
 public:
  Messages(const KnownMemory& known, const sdk::GroupState& group) : known_(known), group_(group) {}
  // Before anything else.
  void use(Wires* wires);

  // As the ABI's entries: RODA_OK or RODA_AGAIN, *request null when it is done already.
  std::int32_t send(Link& link, std::uint64_t tag, const void* data, std::size_t bytes, const roda_memory* memory,
                    Request** request);
  std::int32_t receive(Link& link, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory* memory,
                       Request** request);
  // `kind` is kGet or kPut; the peer's memory is at `address`, reachable by `keys`.
  std::int32_t move(Request::Kind kind, Link& link, std::uint64_t address,
                    const std::array<std::uint32_t, kMaxRails>& keys, void* data, std::size_t bytes, Request** request);
  std::int32_t test(Request* request);

  void on_record(Link& link, const Record& record, const std::byte* data);
  void on_written(Link& link, std::size_t rail, std::uint32_t id);
  void on_moved(Link& link, std::uint32_t id);

  // Posts what found no room before. Returns the number of requests that went further.
  int progress();
  bool has_pending() const { return requests_.pending() > 0; }
  // True when a pending request touches the range.
  bool touches(const void* base, std::size_t bytes) const { return requests_.touches(base, bytes); }
  // No device may touch their memory any more: every pending request is done with this.
  void end_all(const sdk::Failure& cause);
  // Those that wait for this peer, which does no more.
  void end_those_of(const Link& link, const sdk::Failure& cause);
  // In a forked child nothing of it may be touched.
  void forget();

 private:
  // messages.cc: which message meets which receive
  void on_message(Link& link, const Record& record, const std::byte* data);
  void on_announce(Link& link, const Record& record);
  void on_ready(Link& link, const Record& record);
  void match_announced(Request& receive, const Record& announcement);
  void deliver(Request& receive, const std::byte* data, std::size_t bytes);
  void announce(Request& sending);
  void answer(Request& sending, const Record& ready);
  void ask(Request& receive);
  Request* find(const Link& link, std::uint32_t id, Request::Kind kind);

  // Memory and work.
  Request& begin(Request::Kind kind, Link& link, const void* data, std::size_t bytes, std::uint64_t tag = 0);
  // Registers the data unless they lie in known memory. Gives the request back when that fails.
  void attach(Request& request, int access, int memory_kind);
  void start(Request& request);
  bool pump(Request& request);
  bool pump_part(Request& request, std::size_t rail);
  bool post_flush(Request& request, std::size_t rail);
  // Between `bytes` bytes at `base` and those `offset` behind the request's remote address.
  void post(Request& request, std::size_t rail, ibv_wr_opcode opcode, const std::byte* base, std::uint32_t key,
            std::size_t offset, std::size_t bytes);
  std::size_t rail_of(const Request& request, std::size_t part) const;

  // How requests end.
  void end_hold(Request& request);
  void finish(Request& request, const sdk::Failure& end = {RODA_OK, {}});
  void unlist(Request& request);

  const KnownMemory& known_;
  const sdk::GroupState& group_;
  Wires* wires_ = nullptr;
  sdk::RequestTable<Request> requests_;
  std::vector<Request*> active_;  // kMoving, with something left to post
  std::vector<std::uint32_t> free_bounces_;
};

}  // namespace roda::verbs
