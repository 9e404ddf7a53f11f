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

std::string lengths_differ(std::size_t sent, std::size_t wanted) {
  return "a message of " + std::to_string(sent) + " bytes came where " + std::to_string(wanted) + " were expected";
}

}  // namespace

Request& Messages::begin(Request::Kind kind, Peer& peer, const void* data, std::size_t bytes) {
  Request& request = requests_.take();
  request.kind = kind;
  request.state = Request::State::kWaiting;
  request.internal = request.mapped = false;
  request.peer = peer.rank;
  request.tag = 0;
  request.data = static_cast<std::byte*>(const_cast<void*>(data));
  request.bytes = bytes;
  request.moved = request.moved_then = 0;
  request.moved_at_ns = 0;
  request.remote = 0;
  request.remote_id = 0;
  request.code = RODA_OK;
  return request;
}

void Messages::activate(Request& request, Request::State state) {
  request.state = state;
  active_.push_back(&request);
}

void Messages::finish(Request& request, std::int32_t code, std::string message) {
  request.state = Request::State::kDone;
  request.code = code;
  request.message = std::move(message);
  if (request.internal) requests_.give_back(request);
}

// Hands out the request, or its end if it has one already.
std::int32_t Messages::hand_out(Request& request, Request** handle) {
  *handle = nullptr;
  if (request.state == Request::State::kDone) return test(&request);
  *handle = &request;
  return RODA_OK;
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
    record->from = waiting.id;
    *request = &waiting;
  }
  peer.out.publish(record);
  peer.wake();
  return RODA_OK;
}

std::int32_t Messages::receive(Peer& peer, std::uint64_t tag, void* data, std::size_t bytes, Request** request) {
  Request& receive = begin(Request::Kind::kRecv, peer, data, bytes);
  receive.tag = tag;
  auto& waiting = peer.unexpected;
  auto found = std::find_if(waiting.begin(), waiting.end(), [&](const Unexpected& u) { return u.record.tag == tag; });
  if (found == waiting.end()) {
    peer.posted.push_back(&receive);
  } else {
    if (found->record.kind == RecordKind::kAnnounce) {
      begin_receive(peer, receive, found->record);
    } else if (found->payload.size() != bytes) {
      finish(receive, RODA_ERR_INVALID, lengths_differ(found->payload.size(), bytes));
    } else {
      if (bytes > 0) std::memcpy(data, found->payload.data(), bytes);
      finish(receive);
    }
    waiting.erase(found);
  }
  return hand_out(receive, request);
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
    return finish(request, RODA_ERR_INVALID, lengths_differ(announcement.total, request.bytes));
  }
  if (mapped || peer.cma) {
    request.mapped = mapped;
    if (mapped) request.remote += reinterpret_cast<std::uint64_t>(peer.base);
    return activate(request, Request::State::kPulling);
  }
  Record clear = make_record(RecordKind::kClear);
  clear.to = announcement.from;
  clear.from = request.id;
  answer(peer, clear);
}

std::int32_t Messages::test(Request* request) {
  if (request->state != Request::State::kDone) {
    check_deadline(*request);
    return RODA_IN_PROGRESS;
  }
  const std::int32_t code = request->code;
  requests_.give_back(*request);
  if (code != RODA_OK) throw sdk::Failure(code, request->message, group_.peer(request->peer).world_rank);
  return RODA_OK;
}

void Messages::check_deadline(Request& request) {
  const std::uint64_t limit = group_.timeout_ns();
  if (limit == 0) return;
  if (request.moved != request.moved_then || request.moved_at_ns == 0) {
    request.moved_then = request.moved;
    request.moved_at_ns = now_ns();
  } else if (now_ns() - request.moved_at_ns > limit) {
    Peer& peer = group_.peer(request.peer);
    group_.abort({RODA_ERR_TIMEOUT,
                  "nothing moved between this rank and " + group_.describe(peer) + " for " +
                      std::to_string(limit / 1000000) + " ms: " + std::to_string(request.moved) + " of " +
                      std::to_string(request.bytes) + " bytes were there",
                  peer.world_rank});
  }
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
    if (request->state != Request::State::kStreaming) return true;
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
  if (request == nullptr || request->state != Request::State::kWaiting) return;
  if (record.kind == RecordKind::kClear) {
    request->remote_id = record.from;
    activate(*request, Request::State::kStreaming);
  } else if (record.kind == RecordKind::kFinish) {
    finish(*request);
  } else if (record.kind == RecordKind::kRefuse) {
    finish(*request, RODA_ERR_INVALID, "outside the window that " + group_.describe(peer) + " has open");
  }
}

void Messages::handle_message(Peer& peer, const Record& record) {
  auto& posted = peer.posted;
  auto found = std::find_if(posted.begin(), posted.end(), [&](const Request* r) { return r->tag == record.tag; });
  if (found == posted.end()) {
    auto payload = payload_of(&record);
    peer.unexpected.push_back({record, {payload, payload + record.payload}});
    return;
  }
  Request& request = **found;
  posted.erase(found);
  if (record.kind == RecordKind::kAnnounce) return begin_receive(peer, request, record);
  if (record.payload != request.bytes) {
    return finish(request, RODA_ERR_INVALID, lengths_differ(record.payload, request.bytes));
  }
  if (request.bytes > 0) std::memcpy(request.data, payload_of(&record), request.bytes);
  finish(request);
}

void Messages::handle_data(Peer& peer, const Record& record) {
  Request* request = requests_.find(record.to);
  if (request == nullptr || request->peer != peer.rank || record.payload > request->bytes - request->moved) return;
  std::memcpy(request->data + request->moved, payload_of(&record), record.payload);
  request->moved += record.payload;
  if (request->moved < request->bytes) return;
  if (request->internal) {  // a peer's put that is complete
    Record done = make_record(RecordKind::kFinish);
    done.to = request->remote_id;
    answer(peer, done);
  }
  finish(*request);
}

bool Messages::touches(const void* base, std::size_t bytes) const {
  return std::any_of(requests_.all().begin(), requests_.all().end(),
                     [&](const auto& request) { return request->overlaps(base, bytes); });
}

void Messages::end_all(std::int32_t code, const char* message) {
  active_.clear();
  for (Peer& peer : group_.peers()) {
    peer.posted.clear();
    peer.unexpected.clear();
    peer.control.clear();
  }
  for (const auto& request : requests_.all()) {
    if (request->state != Request::State::kFree && request->state != Request::State::kDone) {
      finish(*request, code, message);
    }
  }
}

void Messages::end_those_of(const Peer& peer, std::int32_t code, const std::string& message) {
  auto waits = [&](const Request* r) { return r->peer == peer.rank; };
  std::erase_if(active_, waits);
  group_.peer(peer.rank).posted.clear();
  for (const auto& request : requests_.all()) {
    if (waits(request.get()) && request->state != Request::State::kFree && request->state != Request::State::kDone) {
      finish(*request, code, message);
    }
  }
}

}  // namespace roda::shm
