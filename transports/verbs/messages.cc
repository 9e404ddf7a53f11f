#include "transports/verbs/messages.h"

#include <roda/sdk/error.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace roda::verbs {

namespace {

Record make_record(Kind kind, std::uint32_t id, std::uint64_t tag = 0, std::uint64_t bytes = 0) {
  Record record;
  record.kind = kind;
  record.id = id;
  record.tag = tag;
  record.bytes = bytes;
  return record;
}

int kind_of(const roda_memory* memory) { return memory != nullptr ? memory->kind : RODA_MEMORY_HOST; }

}  // namespace

void Messages::use(Wires* wires, std::size_t stripe_bytes) {
  wires_ = wires;
  stripe_bytes_ = stripe_bytes;
  for (std::uint32_t i = 0; i < kBounces; ++i) free_bounces_.push_back(i);
}

std::int32_t Messages::send(Link& link, std::uint64_t tag, const void* data, std::size_t bytes,
                            const roda_memory* memory, Request** request) {
  *request = nullptr;
  const bool is_short = bytes <= wires_->eager_bytes() && (kind_of(memory) == RODA_MEMORY_HOST || bytes == 0);
  if (is_short) {
    if (!link.has_room()) return RODA_AGAIN;
    link.send(make_record(Kind::kMessage, 0, tag, bytes), data, bytes);
    return RODA_OK;
  }
  Request& sending = begin(Request::Kind::kSend, link, data, bytes, tag);
  attach(sending, 0, kind_of(memory));
  if (const Record* asked = link.sends.find(tag)) {
    const Record ready = *asked;
    link.sends.drop(asked);
    answer(sending, ready);
  } else {
    link.sends.await(&sending);
    announce(sending);
  }
  return requests_.hand_out(sending, request);
}

std::int32_t Messages::receive(Link& link, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory* memory,
                               Request** request) {
  const Link::Arrival* found = link.receives.find(tag);
  if (found == nullptr && link.life == Link::Life::kLeft) {
    throw sdk::Failure(RODA_ERR_PEER, "verbs: " + group_.describe(link.rank) + " has left", link.world_rank);
  }
  Request& receive = begin(Request::Kind::kReceive, link, data, bytes, tag);
  const bool is_long = bytes > wires_->eager_bytes() || (kind_of(memory) != RODA_MEMORY_HOST && bytes > 0);
  if (is_long) attach(receive, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, kind_of(memory));
  if (found == nullptr) {
    link.receives.await(&receive);
    if (is_long) ask(receive);
    return requests_.hand_out(receive, request);
  }
  const Link::Arrival arrival = *found;
  link.receives.drop(found);
  if (arrival.record.kind == Kind::kAnnounce) {
    match_announced(receive, arrival.record);
  } else {
    deliver(receive, arrival.data.data(), arrival.data.size());
  }
  return requests_.hand_out(receive, request);
}

void Messages::on_record(Link& link, const Record& record, const std::byte* data) {
  switch (record.kind) {
    case Kind::kMessage:
      return on_message(link, record, data);
    case Kind::kAnnounce:
      return on_announce(link, record);
    case Kind::kReady:
      return on_ready(link, record);
    case Kind::kRefuse:
      if (Request* receive = find(link, record.id, Request::Kind::kReceive); receive != nullptr && receive->is_asked) {
        finish(*receive, group_.other_length(record.bytes, receive->bytes, link.rank));
      }
      return;
    case Kind::kDrop:
      if (Request* sending = find(link, record.id, Request::Kind::kSend); sending != nullptr && !sending->is_moving) {
        finish(*sending);
      }
      return;
    default:
      throw sdk::Failure(RODA_ERR_PEER, "verbs: a record of unknown kind", link.world_rank);
  }
}

void Messages::on_message(Link& link, const Record& record, const std::byte* data) {
  Request* receive = link.receives.claim(record.tag);
  if (receive == nullptr) {
    Link::Arrival& arrival = link.receives.keep(record.tag);
    arrival.record = record;
    arrival.data.assign(data, data + record.bytes);
    return;
  }
  if (!receive->is_asked) return deliver(*receive, data, record.bytes);
  // The peer holds a permission to write that it never gives back: only the end of the connection revokes it.
  throw group_.other_length(record.bytes, receive->bytes, link.rank);
}

void Messages::deliver(Request& receive, const std::byte* data, std::size_t bytes) {
  if (bytes != receive.bytes) return finish(receive, group_.other_length(bytes, receive.bytes, receive.link->rank));
  if (receive.memory != nullptr) {
    return finish(receive, {RODA_ERR_UNSUPPORTED, "verbs: host memory was sent where device memory is to be received",
                            receive.link->world_rank});
  }
  if (bytes > 0) std::memcpy(receive.data, data, bytes);
  finish(receive);
}

void Messages::on_announce(Link& link, const Record& record) {
  Request* receive = link.receives.claim(record.tag);
  if (receive == nullptr) {
    link.receives.keep(record.tag).record = record;
  } else if (!receive->is_asked) {
    match_announced(*receive, record);
  }
  // One that is asked for is compared by the sender, when it is asked.
}

// The receive is in no list but perhaps in to_ask.
void Messages::match_announced(Request& receive, const Record& announcement) {
  if (announcement.bytes != receive.bytes) {
    receive.link->tell(make_record(Kind::kDrop, announcement.id));
    return finish(receive, group_.other_length(announcement.bytes, receive.bytes, receive.link->rank));
  }
  if (receive.memory == nullptr) attach(receive, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, RODA_MEMORY_HOST);
  auto& waiting = receive.link->to_ask;
  if (std::find(waiting.begin(), waiting.end(), &receive) == waiting.end()) ask(receive);
}

void Messages::ask(Request& receive) {
  Link& link = *receive.link;
  if (link.asked >= kWrites) return link.to_ask.push_back(&receive);
  ++link.asked;
  receive.is_asked = true;
  Record ready = make_record(Kind::kReady, receive.slot, receive.tag, receive.bytes);
  ready.address = reinterpret_cast<std::uintptr_t>(receive.data);
  for (int part = 0; part < receive.parts; ++part) {
    const auto rail = static_cast<std::size_t>(rail_of(receive, part));
    ready.keys[rail] = receive.memory->remote_key(wires_->plan().device[rail]);
  }
  link.tell(ready);
}

void Messages::announce(Request& sending) {
  sending.is_announced = true;
  sending.link->tell(make_record(Kind::kAnnounce, sending.slot, sending.tag, sending.bytes));
}

void Messages::on_ready(Link& link, const Record& record) {
  Request* sending = link.sends.claim(record.tag);
  if (sending == nullptr) {
    link.sends.keep(record.tag) = record;
    return;
  }
  if (link.take_back(Kind::kAnnounce, sending->slot)) sending->is_announced = false;
  answer(*sending, record);
}

// The receive for the message is there.
void Messages::answer(Request& sending, const Record& ready) {
  if (ready.bytes != sending.bytes) {
    sending.link->tell(make_record(Kind::kRefuse, ready.id, 0, sending.bytes));
    return finish(sending);
  }
  sending.address = ready.address;
  sending.keys = ready.keys;
  sending.remote_id = ready.id;
  start(sending);
  // What is sent later must not come before anything that tells of this message.
  if (sending.is_pending() && sending.is_moving && sending.part == 0 && !sending.is_announced) announce(sending);
}

void Messages::on_written(Link& link, int rail, std::uint32_t id) {
  Request* receive = find(link, id, Request::Kind::kReceive);
  if (receive == nullptr || !receive->is_asked) {
    throw sdk::Failure(RODA_ERR_PEER, "verbs: rank " + std::to_string(link.world_rank) + " wrote unasked",
                       link.world_rank);
  }
  if (rail == link.lead()) link.receives.withdraw(receive);
  receive->moved_ns = now_ns();
  if (++receive->part == receive->parts) finish(*receive);
}

Request* Messages::find(const Link& link, std::uint32_t id, Request::Kind kind) {
  Request* request = requests_.find(id);
  const bool fits = request != nullptr && request->kind == kind && request->link == &link;
  return fits ? request : nullptr;
}

}  // namespace roda::verbs
