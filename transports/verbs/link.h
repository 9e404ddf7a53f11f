// The connection to one peer: a queue pair on each rail. One rail, the lead, carries all records, so that they arrive
// in the order they were sent; data goes over all of them.
//
// Records travel in buffers that the receiver posted and whose number the sender knows (credits); every record returns
// those that its sender has emptied. The last credit is kept for a record that does nothing else, so that two peers
// that have used up each other's buffers never wait for each other. A receiver posts one more buffer for each long
// message that it has asked for: a write that announces itself uses one up.
//
// Threads: one at a time. Throws sdk::Failure.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <roda/sdk/matcher.hpp>
#include <string>
#include <vector>

#include "transports/verbs/memory.h"
#include "transports/verbs/request.h"
#include "transports/verbs/wire.h"

namespace roda::verbs {

// Long messages that a peer may write at a time.
inline constexpr std::uint32_t kWrites = 16;
// Writes and reads on their way on one rail.
inline constexpr std::uint32_t kDataDepth = 64;

// What a completion is about: in wr_id, with the peer and a number.
enum class Work : std::uint8_t { kRecord, kData, kProbe, kReceive };
constexpr std::uint64_t work_id(Work work, int peer, std::uint32_t number) {
  return static_cast<std::uint64_t>(work) << 56 | static_cast<std::uint64_t>(peer) << 32 | number;
}

// What all links of a group have in common.
struct RailPlan {
  std::vector<std::size_t> device;  // of each rail, an index into `devices`
  std::vector<ibv_cq*> queue;       // of each rail
  const Devices* devices = nullptr;
  const Settings* settings = nullptr;
  std::uint32_t credits = 0;
  std::size_t slot_bytes = 0;  // of a record with its data

  int rails() const { return static_cast<int>(device.size()); }
  const Device& of(int rail) const { return *(*devices)[device[static_cast<std::size_t>(rail)]]; }
  std::size_t buffer_bytes() const { return slot_bytes * (2 * credits + kWrites); }
};

class Link {
 public:
  enum class Life { kOpen, kLeft, kBroken };

  Link(const RailPlan& plan, int own_rank, int rank, int world_rank);
  ~Link() { close(); }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // --- forming ---
  // Makes the queue pairs, with receives posted. `buffer` has plan.buffer_bytes(), registered as `memory`.
  void open(std::byte* buffer, const Registration* memory);
  QueuePair card(int rail) const;
  void connect(int rail, const PortAddress& peer, const QueuePair& pair);
  // No access of a device on behalf of this link follows. Idempotent.
  void close();
  // In a forked child.
  void forget() { pairs_.clear(); }

  // --- records ---
  // Whether send() may be called now.
  bool has_room() const { return queue_.empty() && may_post(2); }
  void send(Record record, const void* data, std::size_t bytes);
  // As send() without data; waits for room in a queue. Signals wait there also while a put holds them.
  void tell(const Record& record);
  // Takes back what tell() has not sent yet. False: it is on its way.
  bool take_back(Kind kind, std::uint32_t id);
  // Sends what waits. True when something was sent.
  bool flush();
  bool has_unsent() const { return !queue_.empty(); }
  bool has_unacknowledged() const { return records_out_ > 0; }

  // --- data ---
  bool may_move(int rail) const { return pairs_[static_cast<std::size_t>(rail)].data_out < kDataDepth; }
  // `work` lacks its number; it ends with Work::kData and the request's id.
  void move(int rail, std::uint32_t id, ibv_send_wr* work);
  // Asks the peer's devices for a sign of life, on each rail where no such question is open.
  void probe();

  // --- completions ---
  void record_sent() { --records_out_; }
  void data_moved(int rail) { --pairs_[static_cast<std::size_t>(rail)].data_out; }
  void probe_answered(int rail) { pairs_[static_cast<std::size_t>(rail)].is_probed = false; }
  const std::byte* slot(std::uint32_t number) const { return receive_slots_ + plan_.slot_bytes * number; }
  // Posts a receive again; `was_record`: the peer gets a credit for it.
  void repost(int rail, std::uint32_t number, bool was_record);
  void add_credits(std::uint32_t count) { credits_ += count; }

  bool owns(const ibv_qp* pair) const;
  int lead() const { return lead_; }

  const int rank;  // in the group
  const int world_rank;
  Life life = Life::kOpen;
  std::uint64_t heard_ns = 0;  // when something last came back from it
  int holding_puts = 0;        // puts that signals must not overtake

  // Kept here for the protocol of messages (messages.h).
  struct Arrival {
    std::uint64_t tag = 0;
    Record record;
    std::vector<std::byte> data;
  };
  sdk::Matcher<Request, Arrival> receives;  // against messages and announcements
  sdk::Matcher<Request, Record> sends;      // long ones that the peer has not asked for, against what it has asked for
  std::deque<Request*> to_ask;              // receives that wait because kWrites are asked for
  std::uint32_t asked = 0;

 private:
  struct Pair {
    ibv_qp* qp = nullptr;
    std::uint32_t first_packet = 0;
    std::uint32_t max_inline = 0;
    std::uint32_t data_out = 0;
    bool is_probed = false;
  };

  bool may_post(std::uint32_t credits) const {
    return life == Life::kOpen && credits_ >= credits && records_out_ < plan_.credits;
  }
  ibv_qp* create(int rail, std::uint32_t receives, std::uint32_t* max_inline);
  void post_receive(int rail, std::uint32_t number);
  void post(int rail, ibv_send_wr* work);
  void post_record(Record record, const void* data, std::size_t bytes);

  const RailPlan& plan_;
  const int lead_;
  std::vector<Pair> pairs_;
  std::byte* send_slots_ = nullptr;
  std::byte* receive_slots_ = nullptr;
  const Registration* memory_ = nullptr;
  std::uint32_t credits_;
  std::uint32_t to_return_ = 0;
  std::uint32_t records_out_ = 0;
  std::uint32_t next_slot_ = 0;
  std::deque<Record> queue_;
};

}  // namespace roda::verbs
