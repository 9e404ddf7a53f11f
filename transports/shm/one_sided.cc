// The half of Messages that moves bytes between memories: gets, puts, and the copying of long messages.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transports/shm/cma.h"
#include "transports/shm/group.h"
#include "transports/shm/messages.h"

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

std::int32_t Messages::move(Request::Kind kind, Peer& peer, std::uint32_t slot, std::size_t offset, void* data,
                            std::size_t bytes, Request** request) {
  *request = nullptr;
  WindowEntry& window = peer.windows[slot];
  const std::uint64_t length = window.bytes.load(std::memory_order_relaxed);
  if (offset > length || bytes > length - offset) {
    throw group_.outside_window(peer);
  }
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
  peer.out.publish(record);
  peer.wake();
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
    requests_.finish(request, {failure == ESRCH ? RODA_ERR_PEER : RODA_ERR_SYSTEM,
                               "shm: reaching into the memory of " + group_.describe(peer) + ": " +
                                   (failure == ESRCH ? "it has left" : std::strerror(failure)),
                               peer.world_rank});
    return true;
  }
  request.moved += part;
  if (request.moved < request.bytes) return false;
  if (request.kind == Request::Kind::kRecv) {
    Record done{};
    done.kind = RecordKind::kFinish;
    done.to = request.remote_id;
    answer(peer, done);
  }
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

namespace {

Record refusal(const Record& record) {
  Record refused{};
  refused.kind = RecordKind::kRefuse;
  refused.to = record.from;
  return refused;
}

// The memory that a peer's request names, null when it isn't inside an open window.
void* inside(WindowEntry& window, const Record& record) {
  const std::uint64_t bytes = window.bytes.load(std::memory_order_relaxed);
  if (record.address > bytes || record.total > bytes - record.address) return nullptr;
  return reinterpret_cast<void*>(window.address.load(std::memory_order_relaxed) + record.address);
}

}  // namespace

void Messages::serve_get(Peer& peer, const Record& record) {
  void* from = record.slot < kWindows ? inside(group_.own_window(record.slot), record) : nullptr;
  if (from == nullptr) return answer(peer, refusal(record));
  Request& request = begin(Request::Kind::kSend, peer, from, record.total);
  request.is_internal = true;
  request.remote_id = record.from;
  activate(request, Request::Step::kStreaming);
}

void Messages::serve_put(Peer& peer, const Record& record) {
  void* to = record.slot < kWindows ? inside(group_.own_window(record.slot), record) : nullptr;
  if (to == nullptr) return answer(peer, refusal(record));
  Request& request = begin(Request::Kind::kRecv, peer, to, record.total);
  request.is_internal = true;
  request.remote_id = record.from;
  Record clear{};
  clear.kind = RecordKind::kClear;
  clear.to = record.from;
  clear.from = request.slot;
  answer(peer, clear);
}

}  // namespace roda::shm
