// Messages: how data moves: memory and work requests.
#include <arpa/inet.h>

#include <roda/sdk/error.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include "transports/verbs/messages.h"
#include "transports/verbs/stripe.h"

namespace roda::verbs {

namespace {

// A device counts how often it sends again for each piece of work, some until its end however far it got: long work on
// a lossy network would run out of retries.
constexpr std::size_t kPieceBytes = 64 << 10;

}  // namespace

Request& Messages::begin(Request::Kind kind, Link& link, const void* data, std::size_t bytes, std::uint64_t tag) {
  Request& request = requests_.take(data, bytes, tag);
  request.kind = kind;
  request.link = &link;
  request.parts = part_count(bytes, wires_->plan().rails(), stripe_bytes_);
  request.moved_ns = now_ns();
  return request;
}

void Messages::attach(Request& request, int access, int memory_kind) {
  request.memory = known_.find(request.data, request.bytes);
  if (request.memory != nullptr) return;
  unsigned devices = 0;
  for (int part = 0; part < request.parts; ++part) {
    devices |= 1u << wires_->plan().device[static_cast<std::size_t>(rail_of(request, part))];
  }
  try {
    request.own = Registration(devices_, devices, request.data, request.bytes, access, memory_kind);
  } catch (...) {
    unlist(request);
    requests_.give_back(request);
    throw;
  }
  request.memory = &request.own;
}

// The first part goes over the lead, which keeps it in order with the records.
int Messages::rail_of(const Request& request, int part) const {
  return (request.link->lead() + part) % wires_->plan().rails();
}

std::int32_t Messages::move(Request::Kind kind, Link& link, std::uint64_t address,
                            const std::array<std::uint32_t, kMaxRails>& keys, void* data, std::size_t bytes,
                            Request** request) {
  *request = nullptr;
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

void Messages::start(Request& request) {
  request.is_moving = true;
  if (!pump(request)) active_.push_back(&request);
}

// Posts as much as there is room for; true when nothing is left to post.
bool Messages::pump(Request& request) {
  for (; request.part < request.parts; ++request.part, request.part_posted = 0) {
    const int rail = rail_of(request, request.part);
    if (!pump_part(request, rail)) return false;
    const bool must_flush = request.kind == Request::Kind::kPut && rail != request.link->lead();
    if (must_flush && !post_flush(request, rail)) return false;
  }
  // On the lead a signal comes after the write anyway.
  if (request.parts == 1) end_hold(request);
  return true;
}

bool Messages::pump_part(Request& request, int rail) {
  const RailPlan& plan = wires_->plan();
  const Part part = part_of(request.bytes, request.parts, request.part);
  const std::byte* base = request.bounce != Request::kNoBounce ? wires_->bounce(request.bounce) : request.data;
  while (request.part_posted < part.bytes) {
    if (!request.link->may_move(rail)) return false;
    const std::size_t offset = part.offset + request.part_posted;
    const std::size_t bytes = std::min(part.bytes - request.part_posted, kPieceBytes);
    ibv_sge piece{};
    piece.addr = reinterpret_cast<std::uintptr_t>(base + offset);
    piece.length = static_cast<std::uint32_t>(bytes);
    piece.lkey = request.bounce != Request::kNoBounce
                     ? wires_->bounce_key(rail)
                     : request.memory->local_key(plan.device[static_cast<std::size_t>(rail)]);
    ibv_send_wr work{};
    work.sg_list = &piece;
    work.num_sge = 1;
    work.opcode = request.kind == Request::Kind::kGet ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    if (request.kind == Request::Kind::kSend && request.part_posted + bytes == part.bytes) {
      work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
      work.imm_data = htonl(request.remote_id);
    }
    work.wr.rdma.remote_addr = request.address + offset;
    work.wr.rdma.rkey = request.keys[static_cast<std::size_t>(rail)];
    request.link->move(rail, request.slot, &work);
    ++request.work_out;
    request.part_posted += bytes;
  }
  return true;
}

// An acknowledged write has reached the peer's device, not yet its memory. What is read from there afterwards has: so
// the end of this read orders the write before signals on another rail.
bool Messages::post_flush(Request& request, int rail) {
  if (!request.link->may_move(rail)) return false;
  const Part part = part_of(request.bytes, request.parts, request.part);
  ibv_sge piece{};
  piece.addr = reinterpret_cast<std::uintptr_t>(wires_->bounce(kBounces));
  piece.length = 1;
  piece.lkey = wires_->bounce_key(rail);
  ibv_send_wr work{};
  work.sg_list = &piece;
  work.num_sge = 1;
  work.opcode = IBV_WR_RDMA_READ;
  work.wr.rdma.remote_addr = request.address + part.offset + part.bytes - 1;
  work.wr.rdma.rkey = request.keys[static_cast<std::size_t>(rail)];
  request.link->move(rail, request.slot, &work);
  ++request.work_out;
  return true;
}

void Messages::on_moved(Link& link, std::uint32_t id) {
  Request* request = requests_.find(id);
  if (request == nullptr || request->link != &link || request->work_out == 0) return;
  request->moved_ns = now_ns();
  if (--request->work_out == 0 && request->part == request->parts) finish(*request);
}

int Messages::progress() {
  int moved = 0;
  for (std::size_t i = 0; i < active_.size();) {
    Request& request = *active_[i];
    const std::uint32_t before = request.work_out;
    const bool is_posted = pump(request);
    moved += request.work_out != before;
    if (is_posted) {
      active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
      if (request.link->flush()) ++moved;
    } else {
      ++i;
    }
  }
  return moved;
}

}  // namespace roda::verbs
