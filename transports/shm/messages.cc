#include "transports/shm/messages.h"

#include <cerrno>
#include <cstring>

#include "transports/shm/group.h"

namespace roda::shm {
namespace {

// What one call of progress moves of one request: well under the time that anybody would notice.
constexpr std::size_t kSlice = 512 << 10;

// While it lives the peer knows that its private memory is being reached into. Either we see that the peer has left or
// aborted, or its quiesced() sees us: both store first and look then, seq_cst.
class Reach {
 public:
  explicit Reach(Peer& peer) : busy_(peer.our_access->busy) {
    busy_.store(1, std::memory_order_seq_cst);
    allowed_ = peer.is_open();
  }
  ~Reach() { busy_.store(0, std::memory_order_release); }
  bool allowed() const { return allowed_; }

 private:
  std::atomic<std::uint32_t>& busy_;
  bool allowed_;
};

}  // namespace

std::int32_t Messages::send(Peer& peer, std::uint64_t tag, const void* data, std::size_t bytes, Request** request) {
  *request = nullptr;
  if (!flush_answers(peer)) return RODA_AGAIN;
  const bool eager = bytes <= std::min(group_.context().settings().eager_bytes, peer.out.max_payload());
  Record* record = peer.out.reserve(eager ? bytes : 0);
  if (record == nullptr) return RODA_AGAIN;
  record->tag = tag;
  record->total = bytes;
  record->slot = 0;
  if (eager) {
    record->kind = RecordKind::kEager;
    if (bytes > 0) std::memcpy(payload_of(record), data, bytes);
  } else {
    Request& waiting = begin(Request::Kind::kSend, peer, data, bytes);
    std::uint64_t offset = group_.offset_of(data, bytes);
    record->kind = RecordKind::kAnnounce;
    record->slot = offset != WindowEntry::kPrivate;
    record->address = record->slot != 0 ? offset : reinterpret_cast<std::uint64_t>(data);
    record->from = waiting.slot;
    *request = &waiting;
  }
  peer.publish(record);
  return RODA_OK;
}

std::int32_t Messages::receive(Peer& peer, std::uint64_t tag, void* data, std::size_t bytes, Request** request) {
  Request& receive = begin(Request::Kind::kRecv, peer, data, bytes, tag);
  if (const Unexpected* found = peer.receives.find(tag)) {
    if (found->record.kind == RecordKind::kAnnounce) {
      begin_receive(peer, receive, found->record);
    } else {
      deliver(receive, found->payload.data(), found->payload.size());
    }
    peer.receives.drop(found);
  } else {
    peer.receives.await(&receive);
  }
  return requests_.hand_out(receive, request);
}

void Messages::deliver(Request& request, const std::byte* payload, std::size_t bytes) {
  if (bytes != request.bytes) {
    return requests_.finish(request, group_.state().other_length(bytes, request.bytes, request.peer));
  }
  if (bytes > 0) std::memcpy(request.data, payload, bytes);
  requests_.finish(request);
}

void Messages::begin_receive(Peer& peer, Request& request, const Record& announcement) {
  request.remote_id = announcement.from;
  request.remote = announcement.address;
  const bool mapped = announcement.slot != 0;
  const bool outside = mapped && (announcement.address > peer.segment_bytes ||
                                  announcement.total > peer.segment_bytes - announcement.address);
  if (announcement.total != request.bytes || outside) {
    answer(peer, RecordKind::kFinish, announcement.from);
    return requests_.finish(request, group_.state().other_length(announcement.total, request.bytes, peer.rank));
  }
  if (mapped || peer.cma) {
    request.mapped = mapped;
    if (mapped) request.remote += reinterpret_cast<std::uint64_t>(peer.base);
    return activate(request, Request::Step::kPulling);
  }
  answer(peer, RecordKind::kClear, announcement.from, request.slot);
}

std::int32_t Messages::test(Request* request) {
  if (!request->is_pending()) return requests_.collect(*request);
  if (request->limit.is_over(request->moved, group_.state().timeout_ns())) {
    const Peer& peer = group_.peer(request->peer);
    group_.abort(group_.state().stood_still("a transfer of " + std::to_string(request->bytes) + " bytes, of which " +
                                                std::to_string(request->moved) + " were there, with",
                                            peer.rank, group_.place_of(peer)));
  }
  return RODA_IN_PROGRESS;
}

int Messages::progress() {
  int handled = 0;
  for (Peer& peer : group_.peers()) {
    if (!peer.control.empty()) flush_answers(peer);
    if (!peer.in.empty()) handled += read_ring(peer);
  }
  // A finished one leaves the list; pump() may finish, never add.
  for (std::size_t i = 0; i < active_.size();) {
    const std::size_t before = active_[i]->moved;
    Request& request = *active_[i];
    const bool ended = pump(request);
    handled += ended || request.moved != before;
    if (ended) {
      active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  return handled;
}

int Messages::read_ring(Peer& peer) {
  int handled = 0;
  while (const Record* record = peer.in.front()) {
    if (!peer.in.is_sane(*record)) {
      group_.abort(group_.state().fault(RODA_ERR_PEER, peer.rank, "wrote a broken record", group_.place_of(peer)));
      return handled;
    }
    handle(peer, *record);
    peer.in.pop(*record);
    ++handled;
  }
  peer.wake();  // it may sleep until there is room
  return handled;
}

bool Messages::has_news() {
  for (Peer& peer : group_.peers()) {
    if (!peer.in.empty() || (!peer.control.empty() && peer.out.has_room(0))) return true;
  }
  for (Request* request : active_) {
    if (request->step != Request::Step::kStreaming) return true;
    Peer& peer = group_.peer(request->peer);
    if (peer.out.has_room(std::min(peer.out.max_payload() / 2, request->bytes - request->moved))) return true;
  }
  return false;
}

void Messages::handle(Peer& peer, const Record& record) {
  Request* request = nullptr;
  switch (record.kind) {
    case RecordKind::kEager:
    case RecordKind::kAnnounce:
      return handle_message(peer, record);
    case RecordKind::kData:
      return handle_data(peer, record);
    case RecordKind::kGet:
      return serve_get(peer, record);
    case RecordKind::kPut:
      return serve_put(peer, record);
    default:
      break;
  }
  request = requests_.find(record.to);
  if (request == nullptr || request->peer != peer.rank || request->step != Request::Step::kWaiting) return;
  if (record.kind == RecordKind::kClear) {
    request->remote_id = record.from;
    activate(*request, Request::Step::kStreaming);
  } else if (record.kind == RecordKind::kFinish) {
    requests_.finish(*request);
  } else if (record.kind == RecordKind::kRefuse) {
    requests_.finish(*request, group_.outside_window(peer));
  }
}

void Messages::handle_message(Peer& peer, const Record& record) {
  Request* request = peer.receives.claim(record.tag);
  if (request == nullptr) {
    const std::byte* payload = payload_of(&record);
    Unexpected& message = peer.receives.keep(record.tag);
    message.record = record;
    message.payload.assign(payload, payload + record.payload);
  } else if (record.kind == RecordKind::kAnnounce) {
    begin_receive(peer, *request, record);
  } else {
    deliver(*request, payload_of(&record), record.payload);
  }
}

void Messages::end_all(const sdk::Failure& cause) {
  active_.clear();
  for (Peer& peer : group_.peers()) {
    peer.receives = {};
    peer.control.clear();
  }
  requests_.for_each_pending([&](Request& request) { requests_.finish(request, cause); });
}

std::int32_t Messages::move(Request::Kind kind, Peer& peer, std::uint32_t slot, std::size_t offset, void* data,
                            std::size_t bytes, Request** request) {
  *request = nullptr;
  WindowEntry& window = peer.windows[slot];
  const std::uint64_t length = window.bytes.load(std::memory_order_relaxed);
  if (offset > length || bytes > length - offset) throw group_.outside_window(peer);
  if (bytes == 0) return RODA_OK;
  const std::uint64_t place = window.offset.load(std::memory_order_relaxed);
  const bool mapped =
      place != WindowEntry::kPrivate && length <= peer.segment_bytes && place <= peer.segment_bytes - length;
  if (!mapped && !peer.cma) return ask(kind, peer, slot, offset, data, bytes, request);
  Request& moving = begin(kind, peer, data, bytes);
  moving.mapped = mapped;
  moving.remote =
      (mapped ? reinterpret_cast<std::uint64_t>(peer.base) + place : window.address.load(std::memory_order_relaxed)) +
      offset;
  moving.step = kind == Request::Kind::kGet ? Request::Step::kPulling : Request::Step::kPushing;
  if (!pump(moving)) active_.push_back(&moving);
  return requests_.hand_out(moving, request);
}

// By way of the rings.
std::int32_t Messages::ask(Request::Kind kind, Peer& peer, std::uint32_t slot, std::size_t offset, void* data,
                           std::size_t bytes, Request** request) {
  Record* record = flush_answers(peer) ? peer.out.reserve(0) : nullptr;
  if (record == nullptr) return RODA_AGAIN;
  Request& asking = begin(kind, peer, data, bytes);
  record->kind = kind == Request::Kind::kGet ? RecordKind::kGet : RecordKind::kPut;
  record->slot = slot;
  record->address = offset;
  record->total = bytes;
  record->from = asking.slot;
  peer.publish(record);
  *request = &asking;
  return RODA_OK;
}

// Moves a request on; true when it no longer needs that.
bool Messages::pump(Request& request) {
  Peer& peer = group_.peer(request.peer);
  return request.step == Request::Step::kStreaming ? stream(peer, request) : copy_slice(peer, request);
}

bool Messages::copy_slice(Peer& peer, Request& request) {
  const std::size_t part = std::min(kSlice, request.bytes - request.moved);
  std::byte* local = request.data + request.moved;
  const std::uint64_t remote = request.remote + request.moved;
  const bool pulls = request.step == Request::Step::kPulling;
  int failure = 0;
  if (request.mapped) {
    auto there = reinterpret_cast<void*>(remote);
    std::memcpy(pulls ? local : there, pulls ? there : local, part);
  } else {
    Reach reach(peer);
    failure = !reach.allowed() ? ESRCH
              : pulls          ? cma_read(peer.pid, local, remote, part)
                               : cma_write(peer.pid, remote, local, part);
  }
  if (failure != 0) {
    requests_.finish(request, group_.state().fault(failure == ESRCH ? RODA_ERR_PEER : RODA_ERR_SYSTEM, peer.rank,
                                                   std::string("can't be reached into: ") +
                                                       (failure == ESRCH ? "it has left" : std::strerror(failure)),
                                                   group_.place_of(peer)));
    return true;
  }
  request.moved += part;
  if (request.moved < request.bytes) return false;
  if (request.kind == Request::Kind::kRecv) answer(peer, RecordKind::kFinish, request.remote_id);
  requests_.finish(request);
  return true;
}

bool Messages::stream(Peer& peer, Request& request) {
  bool moved = false;
  while (request.moved < request.bytes) {
    const std::size_t part = std::min(peer.out.max_payload() / 2, request.bytes - request.moved);
    Record* record = flush_answers(peer) ? peer.out.reserve(part) : nullptr;
    if (record == nullptr) break;
    record->kind = RecordKind::kData;
    record->to = request.remote_id;
    std::memcpy(payload_of(record), request.data + request.moved, part);
    request.moved += part;
    peer.out.publish(record);
    moved = true;
  }
  if (moved) peer.wake();
  if (request.moved < request.bytes) return false;
  if (request.kind == Request::Kind::kPut) {
    request.step = Request::Step::kWaiting;  // until the peer has written it all
  } else {
    requests_.finish(request);
  }
  return true;
}

// The memory that a peer's request names, null when it isn't inside an open window.
void* Messages::inside_window(const Record& record) {
  if (record.slot >= kWindows) return nullptr;
  const WindowEntry& window = group_.own_window(record.slot);
  const std::uint64_t bytes = window.bytes.load(std::memory_order_relaxed);
  if (record.address > bytes || record.total > bytes - record.address) return nullptr;
  return reinterpret_cast<void*>(window.address.load(std::memory_order_relaxed) + record.address);
}

}  // namespace roda::shm
