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

#include <arpa/inet.h>
#include <roda/sdk/group_state.hpp>

#include <cstring>
#include <utility>

#include "transports/verbs/link.h"
#include "transports/verbs/memory.h"
#include "transports/verbs/wires.h"

namespace roda::verbs {

inline int kind_of(const roda_memory* memory) { return memory != nullptr ? memory->kind : RODA_MEMORY_HOST; }

// The data travel with their record.
inline bool is_short(std::size_t bytes, std::size_t eager_bytes, const roda_memory* memory) {
  return bytes == 0 || (bytes <= eager_bytes && kind_of(memory) == RODA_MEMORY_HOST);
}

// A device counts how often it sends again for each piece of work, some until its end however far it got: long work on
// a lossy network would run out of retries.
inline constexpr std::size_t kPieceBytes = 64 << 10;

class Messages {
 public:
  Messages(const KnownMemory& known, const sdk::GroupState& group) : known_(known), group_(group) {}
  // Before anything else.
  void use(Wires* wires) {
    wires_ = wires;
    for (std::uint32_t i = 0; i < kBounces; ++i) free_bounces_.push_back(i);
  }

  // As the ABI's entries: RODA_OK or RODA_AGAIN, *request null when it is done already.
  std::int32_t send(Link& link, std::uint64_t tag, const void* data, std::size_t bytes, const roda_memory* memory,
                    Request** request) {
    if (is_short(bytes, wires_->eager_bytes(), memory)) {
      if (!link.has_room()) return RODA_AGAIN;
      link.send({.kind = Kind::kMessage, .tag = tag, .bytes = bytes}, data, bytes);
      return RODA_OK;
    }
    Request& sending = begin(Request::Kind::kSend, link, data, bytes, tag);
    attach(sending, 0, kind_of(memory));
    if (!link.sends.post(&sending, [&](const Record& ready) { answer(sending, ready); })) announce(sending);
    return requests_.hand_out(sending, request);
  }
  std::int32_t receive(Link& link, std::uint64_t tag, void* data, std::size_t bytes, const roda_memory* memory,
                       Request** request) {
    if (link.life == Link::Life::kLeft && link.receives.find(tag) == nullptr) throw group_.has_left(link.rank);
    Request& receive = begin(Request::Kind::kReceive, link, data, bytes, tag);
    const bool is_long = !is_short(bytes, wires_->eager_bytes(), memory);
    if (is_long) attach(receive, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, kind_of(memory));
    const bool has_come = link.receives.post(&receive, [&](const Link::Arrival& arrival) {
      if (arrival.record.kind == Kind::kAnnounce) return match_announced(receive, arrival.record);
      deliver(receive, arrival.data.data(), arrival.data.size());
    });
    if (!has_come && is_long) ask(receive);
    return requests_.hand_out(receive, request);
  }
  // `kind` is kGet or kPut; the peer's memory is at `address`, reachable by `keys`.
  std::int32_t move(Request::Kind kind, Link& link, std::uint64_t address,
                    const std::array<std::uint32_t, kMaxRails>& keys, void* data, std::size_t bytes,
                    Request** request) {
    if (bytes == 0) return RODA_OK;
    Request& moving = begin(kind, link, data, bytes);
    moving.address = address;
    moving.keys = keys;
    if (bytes <= wires_->eager_bytes() && !free_bounces_.empty() && known_.find(data, bytes) == nullptr) {
      moving.bounce = free_bounces_.back();
      free_bounces_.pop_back();
      moving.parts = 1;
      if (kind == Request::Kind::kPut) std::memcpy(wires_->bounce(moving.bounce), data, bytes);
    } else {
      attach(moving, kind == Request::Kind::kGet ? IBV_ACCESS_LOCAL_WRITE : 0, RODA_MEMORY_HOST);
    }
    if (kind == Request::Kind::kPut) {
      moving.holds_signals = true;
      ++link.holding_puts;
    }
    start(moving);
    return requests_.hand_out(moving, request);
  }
  std::int32_t test(Request* request) {
    if (!request->is_pending()) return requests_.collect(*request);
    if (group_.timeout_ns() == 0 || now_ns() < request->moved_ns + group_.timeout_ns()) return RODA_IN_PROGRESS;
    throw group_.stood_still("an operation of " + std::to_string(request->bytes) + " bytes with", request->link->rank);
  }

  void on_record(Link& link, const Record& record, const std::byte* data) {
    switch (record.kind) {
      case Kind::kMessage:
        return on_message(link, record, data);
      case Kind::kAnnounce:
        return on_announce(link, record);
      case Kind::kReady:
        return on_ready(link, record);
      case Kind::kRefuse:
        if (Request* receive = find(link, record.id, Request::Kind::kReceive);
            receive != nullptr && receive->is_asked) {
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
  void on_written(Link& link, std::size_t rail, std::uint32_t id) {
    Request* receive = find(link, id, Request::Kind::kReceive);
    if (receive == nullptr || !receive->is_asked) {
      throw group_.fault(RODA_ERR_PEER, link.rank, "wrote unasked");
    }
    if (rail == link.lead()) link.receives.withdraw(receive);
    receive->moved_ns = now_ns();
    if (++receive->part == receive->parts) finish(*receive);
  }
  void on_moved(Link& link, std::uint32_t id) {
    Request* request = requests_.find(id);
    if (request == nullptr || request->link != &link || request->work_out == 0) return;
    request->moved_ns = now_ns();
    if (--request->work_out == 0 && request->part == request->parts) finish(*request);
  }

  // Posts what found no room before. Returns the number of requests that went further.
  int progress() {
    int moved = 0;
    std::erase_if(active_, [&](Request* request) {
      const std::uint32_t before = request->work_out;
      const bool is_posted = pump(*request);
      moved += request->work_out != before;
      if (is_posted && request->link->flush()) ++moved;
      return is_posted;
    });
    return moved;
  }
  bool has_pending() const { return requests_.pending() > 0; }
  // True when a pending request touches the range.
  bool touches(const void* base, std::size_t bytes) const { return requests_.touches(base, bytes); }
  // No device may touch their memory any more: every pending request is done with this.
  void end_all(const sdk::Failure& cause) {
    active_.clear();
    requests_.for_each_pending([&](Request& request) {
      request.is_asked = false;  // nobody else is to be asked
      finish(request, cause);
    });
  }
  // Ends the requests that wait for this peer, which does no more.
  void end_those_of(const Link& link, const sdk::Failure& cause) {
    std::erase_if(active_, [&](const Request* request) { return request->link == &link; });
    requests_.for_each_pending([&](Request& request) {
      if (request.link == &link) finish(request, cause);
    });
  }
  // In a forked child nothing of it may be touched.
  void forget() {
    requests_.for_each_pending([](Request& request) { request.own.forget(); });
  }

 private:
  // Which message meets which receive.
  void on_message(Link& link, const Record& record, const std::byte* data) {
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
  void on_announce(Link& link, const Record& record) {
    Request* receive = link.receives.claim(record.tag);
    if (receive == nullptr) {
      link.receives.keep(record.tag).record = record;
    } else if (!receive->is_asked) {
      match_announced(*receive, record);
    }
    // Where the receive was asked for, the sender compares the lengths, when it is asked.
  }
  void on_ready(Link& link, const Record& record) {
    Request* sending = link.sends.claim(record.tag);
    if (sending == nullptr) {
      link.sends.keep(record.tag) = record;
      return;
    }
    if (link.take_back(Kind::kAnnounce, sending->slot)) sending->is_announced = false;
    answer(*sending, record);
  }
  // The receive is in no list but perhaps in to_ask.
  void match_announced(Request& receive, const Record& announcement) {
    if (announcement.bytes != receive.bytes) {
      receive.link->tell({.kind = Kind::kDrop, .id = announcement.id});
      return finish(receive, group_.other_length(announcement.bytes, receive.bytes, receive.link->rank));
    }
    if (receive.memory == nullptr) attach(receive, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, RODA_MEMORY_HOST);
    auto& waiting = receive.link->to_ask;
    if (std::ranges::find(waiting, &receive) == waiting.end()) ask(receive);
  }
  void deliver(Request& receive, const std::byte* data, std::size_t bytes) {
    if (bytes != receive.bytes) return finish(receive, group_.other_length(bytes, receive.bytes, receive.link->rank));
    if (receive.memory != nullptr) {
      return finish(receive, {RODA_ERR_UNSUPPORTED, "verbs: host memory was sent where device memory is to be received",
                              receive.link->world_rank});
    }
    if (bytes > 0) std::memcpy(receive.data, data, bytes);
    finish(receive);
  }
  void announce(Request& sending) {
    sending.is_announced = true;
    sending.link->tell({.kind = Kind::kAnnounce, .id = sending.slot, .tag = sending.tag, .bytes = sending.bytes});
  }
  // The receive for the message is there.
  void answer(Request& sending, const Record& ready) {
    if (ready.bytes != sending.bytes) {
      sending.link->tell({.kind = Kind::kRefuse, .id = ready.id, .bytes = sending.bytes});
      return finish(sending);
    }
    sending.address = ready.address;
    sending.keys = ready.keys;
    sending.remote_id = ready.id;
    start(sending);
    // What is sent later must not come before anything that tells of this message.
    if (sending.is_pending() && sending.is_moving && sending.part == 0 && !sending.is_announced) announce(sending);
  }
  void ask(Request& receive) {
    Link& link = *receive.link;
    if (link.asked >= kWrites) return link.to_ask.push_back(&receive);
    ++link.asked;
    receive.is_asked = true;
    Record ready{.kind = Kind::kReady, .id = receive.slot, .tag = receive.tag, .bytes = receive.bytes};
    ready.address = reinterpret_cast<std::uintptr_t>(receive.data);
    for (std::size_t part = 0; part < receive.parts; ++part) {
      const std::size_t rail = rail_of(receive, part);
      ready.keys[rail] = receive.memory->remote_key(wires_->plan().device[rail]);
    }
    link.tell(ready);
  }
  Request* find(const Link& link, std::uint32_t id, Request::Kind kind) {
    Request* request = requests_.find(id);
    const bool fits = request != nullptr && request->kind == kind && request->link == &link;
    return fits ? request : nullptr;
  }

  // Memory and work.
  Request& begin(Request::Kind kind, Link& link, const void* data, std::size_t bytes, std::uint64_t tag = 0) {
    Request& request = requests_.take(data, bytes, tag);
    request.kind = kind;
    request.link = &link;
    request.parts = part_count(bytes, wires_->plan().rails(), wires_->plan().stripe_bytes);
    request.moved_ns = now_ns();
    return request;
  }
  // Registers the data unless they lie in known memory. Gives the request back when that fails.
  void attach(Request& request, int access, int memory_kind) {
    request.memory = known_.find(request.data, request.bytes);
    if (request.memory != nullptr) return;
    const RailPlan& plan = wires_->plan();
    unsigned devices = 0;
    for (std::size_t part = 0; part < request.parts; ++part) devices |= 1u << plan.device[rail_of(request, part)];
    try {
      request.own = Registration(*plan.devices, devices, request.data, request.bytes, access, memory_kind);
    } catch (...) {
      unlist(request);
      requests_.give_back(request);
      throw;
    }
    request.memory = &request.own;
  }
  void start(Request& request) {
    request.is_moving = true;
    if (!pump(request)) active_.push_back(&request);
  }
  // Posts as much as there is room for; true when nothing is left to post.
  bool pump(Request& request) {
    for (; request.part < request.parts; ++request.part, request.part_posted = 0) {
      const std::size_t rail = rail_of(request, request.part);
      if (!pump_part(request, rail)) return false;
      const bool must_flush = request.kind == Request::Kind::kPut && rail != request.link->lead();
      if (must_flush && !post_flush(request, rail)) return false;
    }
    // On the lead a signal comes after the write anyway.
    if (request.parts == 1) end_hold(request);
    return true;
  }
  bool pump_part(Request& request, std::size_t rail) {
    const Part part = part_of(request.bytes, request.parts, request.part);
    const bool bounces = request.bounce != Request::kNoBounce;
    const std::byte* base = bounces ? wires_->bounce(request.bounce) : request.data;
    const std::uint32_t key =
        bounces ? wires_->bounce_key(rail) : request.memory->local_key(wires_->plan().device[rail]);
    while (request.part_posted < part.bytes) {
      if (!request.link->may_move(rail)) return false;
      const std::size_t offset = part.offset + request.part_posted;
      const std::size_t bytes = std::min(part.bytes - request.part_posted, kPieceBytes);
      request.part_posted += bytes;
      const bool is_last = request.kind == Request::Kind::kSend && request.part_posted == part.bytes;
      const auto write = is_last ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
      post(request, rail, request.kind == Request::Kind::kGet ? IBV_WR_RDMA_READ : write, base + offset, key, offset,
           bytes);
    }
    return true;
  }
  // An acknowledged write has reached the peer's device, not yet its memory. What is read from there afterwards has: so
  // the end of this read orders the write before signals on another rail.
  bool post_flush(Request& request, std::size_t rail) {
    if (!request.link->may_move(rail)) return false;
    const Part part = part_of(request.bytes, request.parts, request.part);
    post(request, rail, IBV_WR_RDMA_READ, wires_->bounce(kBounces), wires_->bounce_key(rail),
         part.offset + part.bytes - 1, 1);
    return true;
  }
  // Between `bytes` bytes at `base` and those `offset` behind the request's remote address.
  void post(Request& request, std::size_t rail, ibv_wr_opcode opcode, const std::byte* base, std::uint32_t key,
            std::size_t offset, std::size_t bytes) {
    ibv_sge piece{
        .addr = reinterpret_cast<std::uintptr_t>(base), .length = static_cast<std::uint32_t>(bytes), .lkey = key};
    ibv_send_wr work{};
    work.sg_list = &piece;
    work.num_sge = 1;
    work.opcode = opcode;
    work.imm_data = htonl(request.remote_id);  // travels with IBV_WR_RDMA_WRITE_WITH_IMM alone
    work.wr.rdma.remote_addr = request.address + offset;
    work.wr.rdma.rkey = request.keys[rail];
    request.link->move(rail, request.slot, &work);
    ++request.work_out;
  }
  // The first part goes over the lead, which keeps it in order with the records.
  std::size_t rail_of(const Request& request, std::size_t part) const {
    return (request.link->lead() + part) % wires_->plan().rails();
  }

  // How requests end.
  void end_hold(Request& request) {
    if (!request.holds_signals) return;
    request.holds_signals = false;
    --request.link->holding_puts;
  }
  void finish(Request& request, const sdk::Failure& end = {RODA_OK, {}}) {
    Link& link = *request.link;
    unlist(request);
    end_hold(request);
    if (request.bounce != Request::kNoBounce) {
      const bool fetched = end.code() == RODA_OK && request.kind == Request::Kind::kGet;
      if (fetched) std::memcpy(request.data, wires_->bounce(request.bounce), request.bytes);
      free_bounces_.push_back(std::exchange(request.bounce, Request::kNoBounce));
    }
    request.own.release();
    end.code() == RODA_OK ? requests_.finish(request) : requests_.finish(request, end);
    if (!std::exchange(request.is_asked, false)) return;
    --link.asked;
    if (link.to_ask.empty() || link.life != Link::Life::kOpen) return;
    Request* next = link.to_ask.front();
    link.to_ask.pop_front();
    ask(*next);
  }
  void unlist(Request& request) {
    Link& link = *request.link;
    link.receives.withdraw(&request);
    link.sends.withdraw(&request);
    std::erase(link.to_ask, &request);
  }

  const KnownMemory& known_;
  const sdk::GroupState& group_;
  Wires* wires_ = nullptr;
  sdk::RequestTable<Request> requests_;
  std::vector<Request*> active_;  // kMoving, with something left to post
  std::vector<std::uint32_t> free_bounces_;
};

}  // namespace roda::verbs
