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

#include <roda/sdk/matcher.hpp>
#include <roda/sdk/request_table.hpp>

#include <algorithm>
#include <deque>

#include "transports/verbs/device.h"
#include "transports/verbs/memory.h"
#include "transports/verbs/verbs.h"

namespace roda::verbs {

class Link;

inline constexpr std::size_t kLine = 64;  // of a cache

// How a range is divided among the rails of a connection. Both sides compute it: the receiver knows from it how many
// parts will come.
struct Part {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

// As many parts as rails, fewer while a part would be shorter than `least`; at least one.
inline std::size_t part_count(std::size_t bytes, std::size_t rails, std::size_t least) {
  return std::clamp<std::size_t>(bytes / least, 1, rails);
}

// Part `index` of `count`; none is empty when there are at least `count` cache lines. Boundaries are multiples of 64.
inline Part part_of(std::size_t bytes, std::size_t count, std::size_t index) {
  const std::size_t begin = bytes / kLine * index / count * kLine;
  const std::size_t end = index + 1 == count ? bytes : bytes / kLine * (index + 1) / count * kLine;
  return {begin, end - begin};
}

// What ranks tell each other: cards while the group forms, records in sent messages afterwards. Hosts of one byte
// order.
inline constexpr std::uint32_t kMagic = 0x62727600;  // "\0vrb"
inline constexpr std::uint32_t kWireVersion = 1;

// The first card. What may differ is settled as the least of all members.
struct Hello {
  std::uint32_t magic = kMagic;
  std::uint32_t version = kWireVersion;
  std::uint64_t host = 0;  // equal on ranks of one host
  std::uint64_t eager_bytes = 0;
  std::uint64_t stripe_bytes = 0;
  std::uint32_t credits = 0;
  std::uint32_t rails = 0;
};

// The second card: kMaxRails addresses, then one of these for each member and rail.
struct QueuePair {
  std::uint32_t number = 0;
  std::uint32_t first_packet = 0;
};

enum class Kind : std::uint8_t {
  kMessage,   // with its data
  kAnnounce,  // a long message was sent: tag, bytes, id of the sender's request
  kReady,     // a receive is posted: tag, bytes, id of the receiver's request, where to write
  kRefuse,    // to kReady: the message sent has another length: id, bytes
  kDrop,      // to kAnnounce: the receive has another length: id
  kSignal,    // id: index, tag: value
  kWindow,    // id: slot, where it lies
  kCredit,    // nothing but what every record returns
  kBye,       // no more from here
};

// Every sent message begins with one.
struct Record {
  Kind kind = Kind::kCredit;
  std::uint8_t reserved = 0;
  std::uint16_t credits = 0;  // buffers that the sender of the record has emptied
  std::uint32_t id = 0;
  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;
  std::uint64_t address = 0;
  std::array<std::uint32_t, kMaxRails> keys{};
};
static_assert(sizeof(Record) == 48);

// One pending operation of a group: a message, or a get or put on a window.
struct Request : sdk::PendingRequest {
  enum class Kind : std::uint8_t { kSend, kReceive, kGet, kPut };
  static constexpr std::uint32_t kNoBounce = ~0u;

  Kind kind = Kind::kSend;
  bool is_moving = false;       // else it waits for the peer
  bool is_announced = false;    // send: the peer was told of it
  bool is_asked = false;        // receive: the peer was told where to write
  bool holds_signals = false;   // put: signals wait for it
  std::uint32_t remote_id = 0;  // send: of the peer's receive
  Link* link = nullptr;
  std::uint32_t bounce = kNoBounce;  // short data go by way of this place

  std::uint64_t address = 0;  // the peer's memory
  std::array<std::uint32_t, kMaxRails> keys{};
  std::size_t parts = 1;        // one for each rail in use
  std::size_t part = 0;         // receive: those that have come; others: the next one to post
  std::size_t part_posted = 0;  // bytes of it
  std::uint32_t work_out = 0;   // posted and not ended

  const Registration* memory = nullptr;  // what covers the data: `own`, or memory known for longer
  Registration own;

  std::uint64_t moved_ns = 0;  // when it last went further
};

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
  std::size_t stripe_bytes = 0;
  std::size_t slot_bytes = 0;  // of a record with its data

  std::size_t rails() const { return device.size(); }
  const Device& of(std::size_t rail) const { return *(*devices)[device[rail]]; }
  std::size_t buffer_bytes() const { return slot_bytes * (2 * credits + kWrites); }
};

class Link {
 public:
  enum class Life { kOpen, kLeft, kBroken };

  Link(const RailPlan& plan, int own_rank, int peer, int peer_world_rank)
      : rank(peer),
        world_rank(peer_world_rank),
        plan_(plan),
        lead_(static_cast<std::size_t>(own_rank + peer) % plan.rails()),
        credits_(plan.credits) {}
  ~Link() { close(); }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // --- forming ---
  // Makes the queue pairs, with receives posted. `buffer` has plan.buffer_bytes(), registered as `memory`.
  void open(std::byte* buffer, const Registration* memory);
  QueuePair card(std::size_t rail) const { return {pairs_[rail].qp->qp_num, pairs_[rail].first_packet}; }
  void connect(std::size_t rail, const PortAddress& peer, const QueuePair& pair);
  // No access of a device on behalf of this link follows. Idempotent.
  void close();

  // --- records ---
  // Whether send() may be called now.
  bool has_room() const { return queue_.empty() && may_post(2); }
  void send(Record record, const void* data, std::size_t bytes);
  // As send() without data; waits for room in a queue. Signals wait there also while a put holds them.
  void tell(const Record& record) {
    queue_.push_back(record);
    flush();
  }
  // Takes back what tell() has not sent yet. False: it is on its way.
  bool take_back(Kind kind, std::uint32_t id) {
    return std::erase_if(queue_, [&](const Record& record) { return record.kind == kind && record.id == id; }) > 0;
  }
  // Sends what waits. True when something was sent.
  bool flush();
  bool has_unsent() const { return !queue_.empty(); }
  bool has_unacknowledged() const { return records_out_ > 0; }

  // --- data ---
  bool may_move(std::size_t rail) const { return pairs_[rail].data_out < kDataDepth; }
  // `work` lacks its number; it ends with Work::kData and the request's id.
  void move(std::size_t rail, std::uint32_t id, ibv_send_wr* work) {
    work->wr_id = work_id(Work::kData, rank, id);
    post(rail, work);
    ++pairs_[rail].data_out;
  }
  // Asks the peer's devices for a sign of life, on each rail where no such question is open.
  void probe();

  // --- completions ---
  void record_sent() { --records_out_; }
  void data_moved(std::size_t rail) { --pairs_[rail].data_out; }
  void probe_answered(std::size_t rail) { pairs_[rail].is_probed = false; }
  const std::byte* slot(std::uint32_t number) const { return receive_slots_ + plan_.slot_bytes * number; }
  // Posts a receive again; `was_record`: the peer gets a credit for it.
  void repost(std::size_t rail, std::uint32_t number, bool was_record) {
    post_receive(rail, number);
    if (was_record) ++to_return_;
  }
  void add_credits(std::uint32_t count) { credits_ += count; }

  bool owns(const ibv_qp* pair) const { return std::ranges::find(pairs_, pair, &Pair::qp) != pairs_.end(); }
  std::size_t lead() const { return lead_; }

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
  ibv_qp* create(std::size_t rail, std::uint32_t receives, std::uint32_t* max_inline);
  void post_receive(std::size_t rail, std::uint32_t number);
  void post(std::size_t rail, ibv_send_wr* work) {
    work->send_flags |= IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(pairs_[rail].qp, work, &bad);
    if (error != 0) throw refusal("to the connection to", rail, error);
  }
  sdk::Failure refusal(const std::string& what, std::size_t rail, int error) const {
    return {RODA_ERR_SYSTEM,
            "verbs: posting " + what + " rank " + std::to_string(world_rank) + " on " + plan_.of(rail).name() + ": " +
                std::strerror(error),
            world_rank};
  }

  const RailPlan& plan_;
  const std::size_t lead_;
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
