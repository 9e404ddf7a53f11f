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
#include <roda/sdk/clock.hpp>
#include <roda/sdk/matcher.hpp>
#include <roda/sdk/request_table.hpp>

#include <deque>
#include <vector>

#include "plugins/base/event_set.h"
#include "plugins/base/fork_guard.h"
#include "plugins/base/shared_segment.h"
#include "plugins/base/unique_fd.h"
#include "transports/shm/segment.h"

namespace roda::shm {

class Group;

// One pending operation of a group: a message, or a get or put on a window.
//
// Internal ones serve a peer's get or put.
struct Request : sdk::PendingRequest {
  enum class Kind : std::uint8_t { kSend, kRecv, kGet, kPut };
  enum class Step : std::uint8_t {
    kWaiting,    // for a record of the peer
    kPulling,    // we copy from the peer's memory
    kPushing,    // we copy into the peer's memory
    kStreaming,  // we feed the ring
  };

  Kind kind = Kind::kSend;
  Step step = Step::kWaiting;
  bool mapped = false;  // `remote` is an address in this process
  std::uint32_t remote_id = 0;
  int peer = 0;
  std::size_t moved = 0;
  std::uint64_t remote = 0;  // the peer's memory
  sdk::ProgressLimit limit;  // on `moved`
};

// A message that came before its receive.
struct Unexpected {
  std::uint64_t tag = 0;
  Record record{};
  std::vector<std::byte> payload;  // kEager
};

// One other member of a group (or this rank itself) as this process sees it.
struct Peer {
  Group* group = nullptr;
  int rank = -1;
  pid_t pid = 0;  // 0: not visible from here

  SharedSegment segment;  // not mapped twice for this rank itself
  std::byte* base = nullptr;
  std::size_t segment_bytes = 0;
  SegmentHeader* header = nullptr;
  Word* signals_out = nullptr;       // in its segment
  const Word* signals_in = nullptr;  // in ours
  WindowEntry* windows = nullptr;    // in its segment
  AccessWord* our_access = nullptr;  // in its segment: we reach into its memory
  AccessWord* its_access = nullptr;  // in ours: it reaches into our memory

  UniqueFd bell;   // its context's eventfd
  UniqueFd pidfd;  // readable once it died
  ForkGuard bell_guard;
  ForkGuard pidfd_guard;
  bool cma = false;
  bool dead = false;

  RingProducer out;
  RingConsumer in;
  sdk::Matcher<Request, Unexpected> receives;
  std::deque<Record> control;  // answers that found the ring full

  // Wakes the peer if it sleeps. Whatever it shall see was stored before.
  //
  // The sleeper stores sleeping = 1, fences, and looks at signals and rings once more (Group::has_news and the caller's
  // re-test); we store the signal or the tail, fence, and look at sleeping. Both fences are seq_cst, so in their one
  // order either ours comes first and the sleeper sees the news, or the sleeper's does and we see it sleeping.
  void wake() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (header->sleeping.load(std::memory_order_relaxed) != 0) ring_bell();
  }
  void publish(const Record* record) {
    out.publish(record);
    wake();
  }
  void ring_bell() {
    if (bell) roda::ring_bell(bell.get());
  }

  bool is_open() const { return header->state.load(std::memory_order_seq_cst) == MemberState::kOpen; }
};

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
  // Requests that wait for this peer are done with this.
  void end_those_of(Peer& peer, const sdk::Failure& cause) {
    std::erase_if(active_, [&](const Request* request) { return request->peer == peer.rank; });
    peer.receives.forget_awaited();
    requests_.for_each_pending([&](Request& request) {
      if (request.peer == peer.rank) requests_.finish(request, cause);
    });
  }

 private:
  int read_ring(Peer& peer);
  void handle(Peer& peer, const Record& record);
  void handle_message(Peer& peer, const Record& record);
  void handle_data(Peer& peer, const Record& record) {
    Request* request = requests_.find(record.to);
    if (request == nullptr || request->peer != peer.rank || record.payload > request->bytes - request->moved) return;
    std::memcpy(request->data + request->moved, payload_of(&record), record.payload);
    request->moved += record.payload;
    if (request->moved < request->bytes) return;
    if (request->is_internal) answer(peer, RecordKind::kFinish, request->remote_id);  // a peer's put that is complete
    requests_.finish(*request);
  }
  void serve_get(Peer& peer, const Record& record) {
    void* from = inside_window(record);
    if (from == nullptr) return answer(peer, RecordKind::kRefuse, record.from);
    Request& request = begin(Request::Kind::kSend, peer, from, record.total);
    request.is_internal = true;
    request.remote_id = record.from;
    activate(request, Request::Step::kStreaming);
  }
  void serve_put(Peer& peer, const Record& record) {
    void* to = inside_window(record);
    if (to == nullptr) return answer(peer, RecordKind::kRefuse, record.from);
    Request& request = begin(Request::Kind::kRecv, peer, to, record.total);
    request.is_internal = true;
    request.remote_id = record.from;
    answer(peer, RecordKind::kClear, record.from, request.slot);
  }
  void* inside_window(const Record& record);

  Request& begin(Request::Kind kind, const Peer& peer, const void* data, std::size_t bytes, std::uint64_t tag = 0) {
    Request& request = requests_.take(data, bytes, tag);
    request.kind = kind;
    request.peer = peer.rank;
    return request;
  }
  // The whole of a short message has come.
  void deliver(Request& request, const std::byte* payload, std::size_t bytes);
  void begin_receive(Peer& peer, Request& request, const Record& announcement);
  void activate(Request& request, Request::Step step) {
    request.step = step;
    active_.push_back(&request);
  }
  bool pump(Request& request);
  bool stream(Peer& peer, Request& request);
  bool copy_slice(Peer& peer, Request& request);
  std::int32_t ask(Request::Kind kind, Peer& peer, std::uint32_t slot, std::size_t offset, void* data,
                   std::size_t bytes, Request** request);

  // Sends a record without payload to the owner of request `to`, later if the ring is full.
  void answer(Peer& peer, RecordKind kind, std::uint32_t to, std::uint32_t from = 0) {
    const Record record{.kind = kind, .payload = 0, .tag = 0, .total = 0, .address = 0, .from = from, .to = to};
    Record* room = peer.control.empty() ? peer.out.reserve(0) : nullptr;
    if (room == nullptr) return peer.control.push_back(record);
    *room = record;
    peer.publish(room);
  }
  bool flush_answers(Peer& peer) {
    while (!peer.control.empty()) {
      Record* room = peer.out.reserve(0);
      if (room == nullptr) return false;
      *room = peer.control.front();
      peer.control.pop_front();
      peer.publish(room);
    }
    return true;
  }

  Group& group_;
  sdk::RequestTable<Request> requests_;
  std::vector<Request*> active_;  // kPulling, kPushing, kStreaming
};

}  // namespace roda::shm
