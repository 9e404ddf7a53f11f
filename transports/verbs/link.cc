#include "transports/verbs/link.h"

#include <roda/sdk/error.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace roda::verbs {

Link::Link(const RailPlan& plan, int own_rank, int peer, int peer_world_rank)
    : rank(peer),
      world_rank(peer_world_rank),
      plan_(plan),
      lead_((own_rank + peer) % plan.rails()),
      credits_(plan.credits) {}

void Link::send(Record record, const void* data, std::size_t bytes) { post_record(record, data, bytes); }

void Link::tell(const Record& record) {
  queue_.push_back(record);
  flush();
}

bool Link::take_back(Kind kind, std::uint32_t id) {
  const auto found = std::find_if(queue_.begin(), queue_.end(),
                                  [&](const Record& record) { return record.kind == kind && record.id == id; });
  if (found == queue_.end()) return false;
  queue_.erase(found);
  return true;
}

bool Link::flush() {
  bool sent = false;
  while (!queue_.empty() && may_post(2)) {
    if (queue_.front().kind == Kind::kSignal && holding_puts > 0) break;
    const Record record = queue_.front();
    queue_.pop_front();
    post_record(record, nullptr, 0);
    sent = true;
  }
  if (to_return_ < std::max(plan_.credits / 2, 1u) || !may_post(1)) return sent;
  post_record(Record{}, nullptr, 0);
  return true;
}

void Link::post_record(Record record, const void* data, std::size_t bytes) {
  record.credits = static_cast<std::uint16_t>(to_return_);
  to_return_ = 0;
  --credits_;
  ++records_out_;
  std::byte* slot = send_slots_ + plan_.slot_bytes * next_slot_;
  next_slot_ = (next_slot_ + 1) % plan_.credits;
  std::memcpy(slot, &record, sizeof record);
  if (bytes > 0) std::memcpy(slot + sizeof record, data, bytes);

  ibv_sge piece{};
  piece.addr = reinterpret_cast<std::uintptr_t>(slot);
  piece.length = static_cast<std::uint32_t>(sizeof record + bytes);
  piece.lkey = memory_->local_key(plan_.device[static_cast<std::size_t>(lead_)]);
  ibv_send_wr work{};
  work.wr_id = work_id(Work::kRecord, rank, 0);
  work.sg_list = &piece;
  work.num_sge = 1;
  work.opcode = IBV_WR_SEND;
  if (piece.length <= pairs_[static_cast<std::size_t>(lead_)].max_inline) work.send_flags = IBV_SEND_INLINE;
  post(lead_, &work);
}

void Link::move(int rail, std::uint32_t id, ibv_send_wr* work) {
  work->wr_id = work_id(Work::kData, rank, id);
  post(rail, work);
  ++pairs_[static_cast<std::size_t>(rail)].data_out;
}

// An empty write needs no memory and no receive there, but an acknowledgement.
void Link::probe() {
  if (life != Life::kOpen) return;
  for (int rail = 0; rail < plan_.rails(); ++rail) {
    Pair& pair = pairs_[static_cast<std::size_t>(rail)];
    if (pair.is_probed) continue;
    ibv_send_wr work{};
    work.wr_id = work_id(Work::kProbe, rank, 0);
    work.opcode = IBV_WR_RDMA_WRITE;
    post(rail, &work);
    pair.is_probed = true;
  }
}

void Link::post(int rail, ibv_send_wr* work) {
  work->send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(pairs_[static_cast<std::size_t>(rail)].qp, work, &bad);
  if (error == 0) return;
  throw sdk::Failure(RODA_ERR_SYSTEM,
                     "verbs: posting to the connection to rank " + std::to_string(world_rank) + " on " +
                         plan_.of(rail).name() + ": " + std::strerror(error),
                     world_rank);
}

void Link::repost(int rail, std::uint32_t number, bool was_record) {
  post_receive(rail, number);
  if (was_record) ++to_return_;
}

void Link::post_receive(int rail, std::uint32_t number) {
  ibv_sge piece{};
  ibv_recv_wr work{};
  work.wr_id = work_id(Work::kReceive, rank, number);
  if (rail == lead_) {  // the others only take writes
    piece.addr = reinterpret_cast<std::uintptr_t>(slot(number));
    piece.length = static_cast<std::uint32_t>(plan_.slot_bytes);
    piece.lkey = memory_->local_key(plan_.device[static_cast<std::size_t>(rail)]);
    work.sg_list = &piece;
    work.num_sge = 1;
  }
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(pairs_[static_cast<std::size_t>(rail)].qp, &work, &bad);
  if (error == 0) return;
  throw sdk::Failure(RODA_ERR_SYSTEM,
                     "verbs: posting a receive from rank " + std::to_string(world_rank) + " on " +
                         plan_.of(rail).name() + ": " + std::strerror(error),
                     world_rank);
}

bool Link::owns(const ibv_qp* pair) const {
  return std::any_of(pairs_.begin(), pairs_.end(), [&](const Pair& own) { return own.qp == pair; });
}

}  // namespace roda::verbs
