#include "transports/verbs/wires.h"

#include <arpa/inet.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "transports/verbs/group.h"

namespace roda::verbs {
namespace {

constexpr int kBatch = 16;
constexpr std::uint64_t kExplanationNs = 300'000'000;

}  // namespace

Wires::Wires(const Devices& devices, const Settings& settings, const Hello& terms,
             std::vector<std::size_t> device_of_rail, const sdk::GroupState& group)
    : rank_(group.rank()), eager_bytes_((terms.eager_bytes + kLine - 1) / kLine * kLine) {
  plan_.device = std::move(device_of_rail);
  plan_.devices = &devices;
  plan_.settings = &settings;
  plan_.credits = terms.credits;
  plan_.stripe_bytes = terms.stripe_bytes;
  plan_.slot_bytes = (sizeof(Record) + eager_bytes_ + kLine - 1) / kLine * kLine;
  const auto peers = static_cast<std::size_t>(group.size() - 1);
  unsigned used = 0;
  for (std::size_t rail = 0; rail < plan_.rails(); ++rail) {
    create_queue(rail, peers * (kDataDepth + 1 + 2 * plan_.credits + kWrites) + 1);
    used |= 1u << plan_.device[rail];
  }
  buffer_ = map_pages(bounces_bytes() + plan_.buffer_bytes() * peers);
  memory_ =
      Registration(devices, used, buffer_.get(), buffer_.get_deleter().bytes, IBV_ACCESS_LOCAL_WRITE, RODA_MEMORY_HOST);
  for (int peer = 0; peer < group.size(); ++peer) {
    if (peer != rank_) links_.emplace_back(plan_, rank_, peer, group.world_rank(peer));
  }
}

void Wires::create_queue(std::size_t rail, std::size_t completions) {
  const Device& device = plan_.of(rail);
  Queue& queue = queues_.emplace_back(device);
  queue.cq = device.library().create_cq(device.context(), static_cast<int>(completions), &queue, device.channel(), 0);
  if (queue.cq == nullptr) {
    const int error = errno;
    throw sdk::Failure(RODA_ERR_NO_MEMORY, "verbs: a completion queue of " + std::to_string(completions) + " on " +
                                               device.name() + " (which has at most " +
                                               std::to_string(device.max_completions()) + "): " + std::strerror(error) +
                                               "; the group is too large for the device");
  }
  plan_.queue.push_back(queue.cq);
}

int Wires::progress() {
  int handled = 0;
  for (std::size_t rail = 0; rail < plan_.rails(); ++rail) handled += take(rail);
  if (flushed_link_ != nullptr && now_ns() - flushed_ns_ >= kExplanationNs) {
    report(*std::exchange(flushed_link_, nullptr), flushed_rail_, IBV_WC_WR_FLUSH_ERR);
  }
  // Only now: what a peer wrote over other rails before it left has been taken.
  if (handled > 0 || !someone_left_) return handled;
  someone_left_ = false;
  for (Link& link : links_) {
    if (link.life == Link::Life::kLeft && listener_ != nullptr) listener_->on_left(link);
  }
  return 1;
}

int Wires::take(std::size_t rail) {
  ibv_wc completions[kBatch];
  const int count = ibv_poll_cq(plan_.queue[rail], kBatch, completions);
  if (count < 0) {
    throw sdk::Failure(RODA_ERR_SYSTEM, "verbs: the completion queue of " + plan_.of(rail).name() + " is broken");
  }
  for (int i = 0; i < count; ++i) take_one(completions[i], rail);
  return count;
}

void Wires::take_one(const ibv_wc& completion, std::size_t rail) {
  Link& link = this->link(static_cast<int>(completion.wr_id >> 32 & 0xffffff));
  const auto work = static_cast<Work>(completion.wr_id >> 56);
  if (completion.status != IBV_WC_SUCCESS) return lose(link, rail, completion);
  link.heard_ns = now_ns();
  if (work == Work::kRecord) {
    link.record_sent();
  } else if (work == Work::kProbe) {
    link.probe_answered(rail);
  } else if (work == Work::kData) {
    link.data_moved(rail);
    if (listener_ != nullptr) listener_->on_moved(link, static_cast<std::uint32_t>(completion.wr_id));
  } else {
    take_receive(link, completion, rail);
  }
  link.flush();
}

void Wires::take_receive(Link& link, const ibv_wc& completion, std::size_t rail) {
  const auto number = static_cast<std::uint32_t>(completion.wr_id);
  if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
    link.repost(rail, number, false);
    if (listener_ != nullptr) listener_->on_written(link, rail, ntohl(completion.imm_data));
    return;
  }
  Record record;
  const std::byte* slot = link.slot(number);
  if (completion.byte_len >= sizeof record) std::memcpy(&record, slot, sizeof record);
  const std::size_t data = completion.byte_len - sizeof record;
  if (completion.byte_len < sizeof record || (record.kind == Kind::kMessage ? record.bytes : 0) != data) {
    throw sdk::Failure(RODA_ERR_PEER, "verbs: rank " + std::to_string(link.world_rank) + " sent a broken record",
                       link.world_rank);
  }
  link.add_credits(record.credits);
  if (record.kind == Kind::kBye) {
    link.life = Link::Life::kLeft;
    someone_left_ = true;
  } else if (record.kind != Kind::kCredit && listener_ != nullptr) {
    listener_->on_record(link, record, slot + sizeof record);
  }
  link.repost(rail, number, true);
}

void Wires::report(const Link& link, std::size_t rail, ibv_wc_status status) {
  if (listener_ == nullptr) return;
  const Device& device = plan_.of(rail);
  const std::string peer = "rank " + std::to_string(link.world_rank);
  std::string state;
  if (!device.is_active(&state)) {
    return listener_->abort({RODA_ERR_SYSTEM,
                             "verbs: " + device.name() + ", the way to " + peer + ", is " + state +
                                 ": see to its link, or leave it out with RODA_VERBS_DEVICES",
                             link.world_rank});
  }
  const char* words = device.library().wc_status_str(status);
  const bool silent = status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_RNR_RETRY_EXC_ERR;
  listener_->abort({RODA_ERR_PEER,
                    "verbs: the connection to " + peer + " over " + device.name() + " broke (" + words + ")" +
                        (silent ? ": the rank died or gave up the group, or the network between is down" : ""),
                    link.world_rank});
}

}  // namespace roda::verbs
