// The symbolic execution of all ranks' compositions, each call by its program. An algorithm alone is a composition of
// one call.
//
// Memory is cells: one for each chunk, or for each part of a chunk where calls cut the data finer. Each holds a
// symbolic value, and who has touched it. A rank's cells lie behind one another; the executor's own arithmetic (Places)
// finds those of an operand, as if a cell were a byte.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/schedule/places.h"
#include "algorithms/schedule/schedule.h"
#include "algorithms/schedule/traffic.h"
#include "algorithms/schedule/verifier.h"
#include "algorithms/schedule/verify/data.h"

namespace roda::schedule::verifier {

struct Frame;

// Happens-before: vector clocks, and the accesses that a piece of memory remembers.
//
// A thread is one lane of one rank. Its own time advances whenever it tells others something (a message, a signal), so
// an event of time t is known to whoever has a clock that covers (thread, t).
struct Event {
  int thread = -1;
  int time = 0;
  const Frame* frame = nullptr;
  const Op* op = nullptr;  // null: the start, or a copy around the ops
};

class Clock {
 public:
  explicit Clock(int threads) : times_(static_cast<std::size_t>(threads), 0) {}

  bool covers(const Event& event) const { return at(event.thread) >= event.time; }
  int at(int thread) const { return times_[static_cast<std::size_t>(thread)]; }
  void tick(int thread) { ++times_[static_cast<std::size_t>(thread)]; }
  void join(const Clock& other);

 private:
  std::vector<int> times_;
};

using ClockSnapshot = std::shared_ptr<const Clock>;

// Accesses to one cell since its last write.
class History {
 public:
  // `by_message` of a read: the thread that sent the cell. That thread waits for the send's end before it overwrites
  // the cell, so the read is no conflict with its own writes; everybody else must come after the message's receipt.
  void record_read(const Event& read, int by_message = -1);
  void record_write(const Event& write);

  // The access that is not ordered before one by somebody with `clock`; nullptr when there is none.
  const Event* unordered_with_read(const Clock& clock) const { return clock.covers(write_) ? nullptr : &write_; }
  const Event* unordered_with_write(const Clock& clock, int thread) const;
  // As a write at the end of the rank that owns the cell, when all its sends are over. `may_linger`: of a read.
  const Event* unordered_with_end(const Clock& clock, auto may_linger) const {
    if (!clock.covers(write_)) return &write_;
    for (const Read& read : reads_) {
      if (read.by_message < 0 && !clock.covers(read.event) && !may_linger(read.event)) return &read.event;
    }
    return nullptr;
  }

 private:
  struct Read {
    Event event;
    int by_message;
  };
  Event write_;
  std::vector<Read> reads_;
};

struct Cell {
  Value value = kUndefined;
  std::int64_t length = 0;  // equal numbers, equal lengths
  Range name;
  bool in_block = false;
  std::int32_t region = -1;  // of a composition's Scratch
  History history;
};

using CellNumber = std::size_t;  // among a rank's
inline constexpr CellNumber kNowhere = CellNumber{1} << 40;

// Addresses of cells, which nobody looks at, are their numbers.
inline constexpr std::uintptr_t kFirstAddress = 1 << 20;
inline char* address_of(CellNumber cell) { return reinterpret_cast<char*>(kFirstAddress + cell); }
inline CellNumber cell_at(const char* address) { return reinterpret_cast<std::uintptr_t>(address) - kFirstAddress; }

// Where peers see the data of a call.
enum class Blocks : std::uint8_t {
  kOwn,     // in staging memory, as the program says
  kUser,    // where the user has it: memory that is lent, and what a schedule means that is not placed yet
  kBucket,  // all of it in staging memory
};

// How a rank comes to its data.
struct Setting {
  bool in_output = false;  // its input lies in its output, where the collective allows that
  Blocks blocks = Blocks::kOwn;
};

struct Message {
  const Op* op = nullptr;
  CellNumber first = 0;  // the sender's
  std::size_t count = 0;
  ClockSnapshot clock;
  bool received = false;
};

struct Signal {
  ClockSnapshot clock;
  Event sender;
};

// One collective among some of the ranks.
struct Session {
  std::vector<Frame*> frames;  // [member] null: it does not call
  Traffic traffic{0, 0};
  std::vector<std::vector<Message>> messages;  // [channel]
  std::vector<std::size_t> received;           // [channel]
  std::vector<std::vector<Signal>> signals;    // [signal]
  std::vector<std::uint32_t> waited;           // [signal]
};

// A rank's part in it.
struct Frame {
  Session* session = nullptr;
  const Program* program = nullptr;
  int rank = 0;
  int index = 0;  // in the session
  std::int32_t stage = 0;
  Blocks blocks = Blocks::kOwn;
  Places places;
  ClockSnapshot end;  // of its ops
};

// Used once. `settings`: rank r has settings[r % size].
class Proof {
 public:
  Proof(const std::vector<const Program*>& ranks, std::vector<Setting> settings);
  void run();  // throws a Violation
  int roundings() const { return roundings_; }

 private:
  struct PendingSend {
    int peer;            // in the session
    std::size_t number;  // in the channel
  };
  struct Thread {
    int rank = 0;
    int lane = 0;
    Clock clock;
    std::size_t next = 0;  // op
    std::vector<PendingSend> sends;
    bool ended = false;  // all ops and sends of the frame are over
  };
  struct Act {  // copies, or a frame
    Frame* frame = nullptr;
    CellNumber to = 0, from = 0;
    std::size_t count = 0;
  };
  struct Rank {
    std::vector<Cell> cells;
    std::vector<Act> acts;
    std::size_t act = 0;
    bool entered = false;  // the ops of the frame
    CellNumber spaces[3] = {kNowhere, kNowhere, kNowhere};
    std::map<std::int32_t, std::int32_t> holders;  // by buffer: the region that was written last
  };
  struct Blocker {  // what a thread that can't go on waits for
    const Op* op;
    int peer;  // in the session
    std::string reason;
  };

  // layout.cc: whose memory lies where
  void count_parts();
  void add_rank(const Program& program);
  void add_space(const Program& program, Space space, const std::vector<Block>& blocks);
  std::int64_t length_of(const Block& block, int part) const;
  void add_frame(int rank, const Call& call, const Op& op);
  void map_data(const Call& call, const Op& op, Frame* frame);
  void add_own_memory(Frame* frame);
  CellNumber add_cells(const Frame& frame, std::size_t w, Space space, bool in_block);
  CellNumber add_like(int rank, CellNumber cell, std::size_t count, Space space, std::int32_t first);
  Session& session_of(const Call& call);

  // proof.cc: going through the acts
  void advance(int rank, bool* moved);
  bool pass(int rank, Frame& frame, bool* moved);
  bool advance(Thread& thread, Frame& frame, bool* moved);
  bool ready(const Thread& thread, const Frame& frame, const Op& op);
  const PendingSend* pending_over(const Thread& thread, const Frame& frame, CellNumber first, std::size_t count);
  bool received(const Thread& thread, const Frame& frame, const PendingSend& send);

  // ops.cc: what each kind does
  void execute(Thread& thread, Frame& frame, const Op& op);
  void send(Thread& thread, Frame& frame, const Op& op);
  void receive(Thread& thread, Frame& frame, const Op& op);
  void combine(Thread& thread, Frame& frame, const Op& op);
  void put(Thread& thread, Frame& frame, const Op& op);
  void dots(Thread& thread, Frame& frame, const Op& op);
  void round(Thread& thread, Frame& frame, const Op& op);
  void weigh(Thread& thread, Frame& frame, const Op& op);
  void signal(Thread& thread, Frame& frame, const Op& op);
  void wait(Thread& thread, Frame& frame, const Op& op);
  std::vector<Value> read_all(Thread& thread, const Frame& frame, const Operand& operand);
  Value read(Thread& thread, int owner, CellNumber cell);
  void write(Thread& thread, int owner, CellNumber cell, Value value);
  void take_buffer(Thread& thread, const Cell& cell);
  void bring_in(Thread& thread, Frame& frame);
  void bring_out(Thread& thread, Frame& frame);
  void copy(Thread& thread, const Frame& frame, const std::vector<ChunkRun>& runs, Places::Way way);
  void copy(Thread& thread, CellNumber to, CellNumber from, std::size_t count);
  static CellNumber first_of(const Frame& frame, const Operand& operand) {
    return cell_at(frame.places.address(operand));
  }
  // In a peer's window.
  CellNumber in_window(const Frame& frame, int peer, const Operand& operand) const;
  void check_lengths(int a_owner, CellNumber a, int b_owner, CellNumber b);

  // proof.cc: how it ended
  void check_deadlock();
  Blocker blocker(const Thread& thread, const Frame& frame);
  void check_signals();
  void check_end_order();
  void check_end(const Frame* frame, int rank, const Clock& end, CellNumber cell);
  void check_results();
  // Whether the read may outlast the frame's ops: the block is not used again before its reader has told.
  bool may_linger(const Frame& frame, const Cell& cell, const Event& read) const;

  Thread& thread_of(int rank, int lane) { return threads_[static_cast<std::size_t>(rank * lanes_ + lane)]; }
  Rank& rank_of(int rank) { return memory_[static_cast<std::size_t>(rank)]; }
  const Program& program_of(int rank) const { return *ranks_[static_cast<std::size_t>(rank)]; }
  Cell& cell(int rank, CellNumber number);
  Frame* frame_of(int rank) {
    Rank& at = rank_of(rank);
    return at.act < at.acts.size() ? at.acts[at.act].frame : nullptr;
  }
  int number_of(const Thread& thread) const { return thread.rank * lanes_ + thread.lane; }
  Event now(const Thread& thread) const;
  std::string describe(const Event& event) const;
  std::string name_of(int rank, const Cell& cell) const;
  Violation violation(const Thread& thread, const Frame* frame, const Op* op, std::string message) const;
  // Does what may complain; throws a complaint as a Violation.
  void in_op(const Thread& thread, const Frame* frame, const Op* op, auto what);

  const std::vector<const Program*>& ranks_;
  const std::vector<Setting> settings_;
  const int size_;
  int lanes_ = 1;
  int parts_ = 1;      // of a chunk
  int roundings_ = 0;  // of some contribution to a result, at most
  std::optional<Expressions> expressions_;
  std::vector<Thread> threads_;  // [rank * lanes_ + lane]
  std::vector<Rank> memory_;     // [rank]
  std::deque<Frame> frames_;
  std::map<std::pair<std::int32_t, std::vector<std::int32_t>>, Session> sessions_;  // by stage and members
};

}  // namespace roda::schedule::verifier
