#include "transports/verbs/link.h"

#include <sys/random.h>
#include <roda/sdk/error.hpp>

#include <cerrno>
#include <cstring>

namespace roda::verbs {
namespace {

constexpr std::uint32_t kPacketMask = 0xffffff;
constexpr std::uint32_t kWantedInline = 128;
// Receives are posted ahead of what may come, so a peer that finds none is broken; it need not wait for long.
constexpr std::uint8_t kReceiverPause = 12;  // 0.64 ms
constexpr std::uint8_t kReceiverRetries = 6;

std::uint32_t random_packet_number() {
  std::uint32_t number = 0;
  (void)!::getrandom(&number, sizeof number, 0);
  return number & kPacketMask;
}

std::string describe(const PortAddress& address) {
  return std::string(address.device) + " port " + std::to_string(address.port) +
         (address.is_global != 0 ? " at " + gid_text(address.gid) : " with LID " + std::to_string(address.lid));
}

ibv_ah_attr path_to(const Device& device, const PortAddress& peer, std::uint8_t traffic_class) {
  ibv_ah_attr path{};
  path.dlid = peer.lid;
  path.port_num = device.address().port;
  path.is_global = device.address().is_global;
  if (path.is_global == 0) return path;
  std::copy(peer.gid.begin(), peer.gid.end(), std::begin(path.grh.dgid.raw));
  path.grh.sgid_index = static_cast<std::uint8_t>(device.gid_index());
  path.grh.hop_limit = 64;
  path.grh.traffic_class = traffic_class;
  return path;
}

}  // namespace

// Link: making queue pairs and bringing them up.
void Link::open(std::byte* buffer, const Registration* memory) {
  send_slots_ = buffer;
  receive_slots_ = buffer + plan_.slot_bytes * plan_.credits;
  memory_ = memory;
  pairs_.resize(plan_.rails());
  for (std::size_t rail = 0; rail < plan_.rails(); ++rail) {
    Pair& pair = pairs_[rail];
    const std::uint32_t receives = kWrites + (rail == lead_ ? plan_.credits : 0);
    pair.qp = create(rail, receives, &pair.max_inline);
    pair.first_packet = random_packet_number();
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = plan_.of(rail).address().port;
    attributes.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    if (const int error = plan_.of(rail).library().modify_qp(pair.qp, &attributes, mask); error != 0) {
      throw sdk::Failure(RODA_ERR_SYSTEM,
                         "verbs: preparing a queue pair of " + plan_.of(rail).name() + ": " + std::strerror(error));
    }
    for (std::uint32_t i = 0; i < receives; ++i) post_receive(rail, i);
  }
}

ibv_qp* Link::create(std::size_t rail, std::uint32_t receives, std::uint32_t* max_inline) {
  const Device& device = plan_.of(rail);
  for (const std::uint32_t inline_bytes : {kWantedInline, 0u}) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = plan_.queue[rail];
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap.max_send_wr = kDataDepth + 1 + (rail == lead_ ? plan_.credits : 0);
    wanted.cap.max_recv_wr = receives;
    wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
    wanted.cap.max_inline_data = inline_bytes;
    ibv_qp* made = device.library().create_qp(device.pd(), &wanted);
    *max_inline = wanted.cap.max_inline_data;
    if (made != nullptr) return made;
  }
  const int error = errno;
  throw sdk::Failure(
      error == ENOMEM ? RODA_ERR_NO_MEMORY : RODA_ERR_SYSTEM,
      "verbs: a queue pair on " + device.name() + " for rank " + std::to_string(world_rank) + ": " +
          std::strerror(error) +
          (error == ENOMEM ? "; the device or the limit on locked memory (ulimit -l) allows no more" : ""));
}

void Link::connect(std::size_t rail, const PortAddress& peer, const QueuePair& pair) {
  const Device& device = plan_.of(rail);
  const PortAddress& own = device.address();
  Pair& mine = pairs_[rail];
  const std::string way = "rank " + std::to_string(world_rank) + " from " + describe(own) + " to " + describe(peer);
  if (own.is_global != peer.is_global || (own.is_global != 0 && is_ipv4(own.gid) != is_ipv4(peer.gid))) {
    throw sdk::Failure(RODA_ERR_PRECONDITION,
                       "verbs: no way to " + way +
                           ": their addresses are of different kinds; RODA_VERBS_DEVICES "
                           "and RODA_VERBS_GID_INDEX choose others",
                       world_rank);
  }
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = static_cast<ibv_mtu>(std::min(own.mtu, peer.mtu));
  attributes.dest_qp_num = pair.number;
  attributes.rq_psn = pair.first_packet;
  attributes.max_dest_rd_atomic = own.reads;
  attributes.min_rnr_timer = kReceiverPause;
  attributes.ah_attr = path_to(device, peer, static_cast<std::uint8_t>(plan_.settings->traffic_class));
  int error = device.library().modify_qp(mine.qp, &attributes,
                                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error == 0) {
    attributes.qp_state = IBV_QPS_RTS;
    attributes.sq_psn = mine.first_packet;
    attributes.timeout = static_cast<std::uint8_t>(plan_.settings->timeout);
    attributes.retry_cnt = static_cast<std::uint8_t>(kRetries);
    attributes.rnr_retry = kReceiverRetries;
    attributes.max_rd_atomic = std::min(device.max_reads(), peer.reads);
    error = device.library().modify_qp(
        mine.qp, &attributes,
        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  }
  if (error == 0) return;
  throw sdk::Failure(RODA_ERR_PEER,
                     "verbs: no connection to " + way + ": " + std::strerror(error) +
                         "; see that the networks of the two devices are joined (RODA_VERBS_DEVICES, "
                         "RODA_VERBS_GID_INDEX)",
                     world_rank);
}

void Link::close() {
  for (std::size_t rail = 0; rail < pairs_.size(); ++rail) {
    if (pairs_[rail].qp == nullptr) continue;
    const Library& library = plan_.of(rail).library();
    // In the error state it answers no peer any more; destroying waits for the device to let go of it.
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    (void)library.modify_qp(pairs_[rail].qp, &attributes, IBV_QP_STATE);
    (void)library.destroy_qp(pairs_[rail].qp);
  }
  pairs_.clear();
  if (life == Life::kOpen) life = Life::kBroken;
}

bool Link::flush() {
  bool sent = false;
  while (!queue_.empty() && may_post(2)) {
    if (queue_.front().kind == Kind::kSignal && holding_puts > 0) break;
    const Record record = queue_.front();
    queue_.pop_front();
    send(record, nullptr, 0);
    sent = true;
  }
  if (to_return_ < std::max(plan_.credits / 2, 1u) || !may_post(1)) return sent;
  send(Record{}, nullptr, 0);
  return true;
}

void Link::send(Record record, const void* data, std::size_t bytes) {
  record.credits = static_cast<std::uint16_t>(to_return_);
  to_return_ = 0;
  --credits_;
  ++records_out_;
  std::byte* slot = send_slots_ + plan_.slot_bytes * next_slot_;
  next_slot_ = (next_slot_ + 1) % plan_.credits;
  std::memcpy(slot, &record, sizeof record);
  if (bytes > 0) std::memcpy(slot + sizeof record, data, bytes);

  ibv_sge piece{.addr = reinterpret_cast<std::uintptr_t>(slot),
                .length = static_cast<std::uint32_t>(sizeof record + bytes),
                .lkey = memory_->local_key(plan_.device[lead_])};
  ibv_send_wr work{};
  work.wr_id = work_id(Work::kRecord, rank, 0);
  work.sg_list = &piece;
  work.num_sge = 1;
  work.opcode = IBV_WR_SEND;
  if (piece.length <= pairs_[lead_].max_inline) work.send_flags = IBV_SEND_INLINE;
  post(lead_, &work);
}

// An empty write needs no memory and no receive there, but an acknowledgement.
void Link::probe() {
  if (life != Life::kOpen) return;
  for (std::size_t rail = 0; rail < plan_.rails(); ++rail) {
    Pair& pair = pairs_[rail];
    if (pair.is_probed) continue;
    ibv_send_wr work{};
    work.wr_id = work_id(Work::kProbe, rank, 0);
    work.opcode = IBV_WR_RDMA_WRITE;
    post(rail, &work);
    pair.is_probed = true;
  }
}

void Link::post_receive(std::size_t rail, std::uint32_t number) {
  ibv_sge piece{};
  ibv_recv_wr work{};
  work.wr_id = work_id(Work::kReceive, rank, number);
  if (rail == lead_) {  // the others only take writes
    piece = {.addr = reinterpret_cast<std::uintptr_t>(slot(number)),
             .length = static_cast<std::uint32_t>(plan_.slot_bytes),
             .lkey = memory_->local_key(plan_.device[rail])};
    work.sg_list = &piece;
    work.num_sge = 1;
  }
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(pairs_[rail].qp, &work, &bad);
  if (error != 0) throw refusal("a receive from", rail, error);
}

}  // namespace roda::verbs
