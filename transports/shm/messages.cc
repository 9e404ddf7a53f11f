#include "transports/shm/messages.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "transports/shm/group.h"

namespace roda::shm {

namespace {

Record make_record(RecordKind kind) {
  Record record{};
  record.kind = kind;
  return record;
}

}  // namespace

Request& Messages::begin(Request::Kind kind, const Peer& peer, const void* data, std::size_t bytes, std::uint64_t tag) {
  Request& request = requests_.take(data, bytes, tag);
  request.kind = kind;
  request.peer = peer.rank;
  return request;
}

void Messages::activate(Request& request, Request::Step step) {
  request.step = step;
  active_.push_back(&request);
}

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
  peer.out.publish(record);
  peer.wake();
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
    Record done = make_record(RecordKind::kFinish);
    done.to = announcement.from;
    answer(peer, done);
    return requests_.finish(request, group_.state().other_length(announcement.total, request.bytes, peer.rank));
  }
  if (mapped || peer.cma) {
    request.mapped = mapped;
    if (mapped) request.remote += reinterpret_cast<std::uint64_t>(peer.base);
    return activate(request, Request::Step::kPulling);
  }
  Record clear = make_record(RecordKind::kClear);
  clear.to = announcement.from;
  clear.from = request.slot;
  answer(peer, clear);
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

void Messages::answer(Peer& peer, const Record& record) {
  Record* room = peer.control.empty() ? peer.out.reserve(0) : nullptr;
  if (room == nullptr) return peer.control.push_back(record);
  *room = record;
  room->payload = 0;
  peer.out.publish(room);
  peer.wake();
}

bool Messages::flush_answers(Peer& peer) {
  while (!peer.control.empty()) {
    Record* room = peer.out.reserve(0);
    if (room == nullptr) return false;
    *room = peer.control.front();
    room->payload = 0;
    peer.control.pop_front();
    peer.out.publish(room);
    peer.wake();
  }
  return true;
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
      group_.abort({RODA_ERR_PEER, group_.describe(peer) + " wrote a broken record", peer.world_rank});
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

void Messages::handle_data(Peer& peer, const Record& record) {
  Request* request = requests_.find(record.to);
  if (request == nullptr || request->peer != peer.rank || record.payload > request->bytes - request->moved) return;
  std::memcpy(request->data + request->moved, payload_of(&record), record.payload);
  request->moved += record.payload;
  if (request->moved < request->bytes) return;
  if (request->is_internal) {  // a peer's put that is complete
    Record done = make_record(RecordKind::kFinish);
    done.to = request->remote_id;
    answer(peer, done);
  }
  requests_.finish(*request);
}

void Messages::end_all(const sdk::Failure& cause) {
  active_.clear();
  for (Peer& peer : group_.peers()) {
    peer.receives = {};
    peer.control.clear();
  }
  requests_.for_each_pending([&](Request& request) { requests_.finish(request, cause); });
}

void Messages::end_those_of(Peer& peer, const sdk::Failure& cause) {
  std::erase_if(active_, [&](const Request* request) { return request->peer == peer.rank; });
  peer.receives.forget_awaited();
  requests_.for_each_pending([&](Request& request) {
    if (request.peer == peer.rank) requests_.finish(request, cause);
  });
}

}  // namespace roda::shm
