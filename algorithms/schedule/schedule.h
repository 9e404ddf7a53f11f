// A collective algorithm as data: what one rank does, as lanes of steps over chunk ranges.
//
// A schedule knows no transport, no dtype and no byte count. It is made once per (algorithm, rank, group size, root)
// and compiled to a program (program.h), which the executor binds to memory and runs; the verifier and the simulator
// play the same program.
//
// Initial and final state, per collective (P = group size, C = Schedule::chunks):
//   allreduce       in place:  Output holds this rank's contribution in C chunks; ends as the reduction on every rank.
//                   otherwise: Input holds it (read-only), Output is undefined at the start.
//   broadcast       Output, C chunks; holds the data on the root at the start, on every rank at the end.
//   allgather       Output, P chunks, chunk p of rank p's size; chunk `rank` holds this rank's contribution at first.
//   reduce-scatter  Input, P chunks (read-only); Output, one chunk (index 0): the reduction of all chunks `rank`.
//   alltoall        Input, P chunks (chunk p goes to rank p; read-only); Output, P chunks (chunk p came from rank p).
//   adasum          as allreduce in place, and ends as the adaptive sum (arXiv:2006.02924). `root`: how many ranks in a
//                   row hold shares of one vector; 0: each holds a whole one. Chunks are of what the rank holds.
//   reduce          Input, C chunks (read-only); on the root Output, C chunks, ends as the reduction.
//                   Both may be one memory: the root writes no chunk of Output before it has read the same chunk of
//                   its Input for the last time.
//   barrier         no data: no rank ends before every rank has started.
#pragma once

#include <roda/abi/types.h>

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace roda::schedule {

// Numbered as the ABI's roda_collective; the executor relies on it.
enum class Collective : std::uint8_t {
#define RODA_ENTRY(symbol, cpp, number, wire, users, title, input, output, traits) k##cpp = number,
  RODA_COLLECTIVES(RODA_ENTRY)
#undef RODA_ENTRY
};

constexpr const roda_collective_entry& entry_of(Collective collective) {
  return *roda_collective_of(static_cast<int>(collective));
}
constexpr bool is(Collective collective, std::uint32_t traits) {
  return roda_collective_is(static_cast<int>(collective), traits) != 0;
}

// Whether the data are one vector that is cut anywhere, and not blocks of the ranks.
constexpr bool is_cut(Collective collective) { return entry_of(collective).input == RODA_WHOLE; }

// Whether the root alone has an Output: what all ranks' Inputs come to.
constexpr bool is_for_root(Collective collective) { return is(collective, RODA_COMBINES | RODA_ROOTED); }

// Allreduce and Adasum: every rank ends with the same vector, made of all ranks' vectors.
constexpr bool is_allreduction(Collective collective) {
  return is_cut(collective) && is(collective, RODA_COMBINES) && !is(collective, RODA_ROOTED);
}

// Allreduce, Adasum and allgather: every rank ends with the same.
constexpr bool is_for_all(Collective collective) {
  return is_allreduction(collective) || collective == Collective::kAllgather;
}

// Whether every rank has a block for each other that only these two know the length of.
constexpr bool is_between_pairs(Collective collective) {
  return entry_of(collective).input == RODA_ALL_PARTS && entry_of(collective).output == RODA_ALL_PARTS;
}

// Every collective that can have algorithms, by number.
const std::vector<Collective>& collectives();

// Products, of Adasum: of two vectors, or parts of them, the dot product and both squared norms, tensor by tensor. One
// chunk has those of all tensors.
enum class Space : std::uint8_t { kInput, kOutput, kScratch, kProducts };

// `count` consecutive chunks of one space. count == 0: no data (a zero-byte message, or no operand).
struct Range {
  Space space = Space::kOutput;
  std::int32_t first = 0;
  std::int32_t count = 0;

  friend bool operator==(const Range&, const Range&) = default;
};

inline bool overlap(const Range& a, const Range& b) {
  return a.space == b.space && a.first < b.first + b.count && b.first < a.first + a.count;
}

// Peer of a signal or wait that means every other rank of the group.
inline constexpr std::int32_t kAllPeers = -1;

enum class StepKind : std::uint8_t {
  kSend,        // src -> peer. Started, not waited for: it completes before its range is written or the lane ends.
  kRecv,        // peer -> dst
  kRecvReduce,  // dst = src (op) message from peer; src may equal dst
  kCopy,        // dst = src
  kReduce,      // dst = dst (op) src
  kGet,         // dst = peer's src; the peer's window must be known readable by a wait before
  kGetReduce,   // dst = dst (op) peer's src
  kPut,         // peer's dst = src
  kSignal,      // the signal `signal` of this rank at peer (or at all peers) counts one up
  kWait,        // until `signal` from peer (from all peers) has counted up as often as this lane has waited for it
  kDots,        // dst, a chunk of Products, = those of src, of the first vector, and other, of the second
  kWeigh,       // dst = the adaptive sum of src and other by the first chunk of Products; dst may equal either
  kRound,       // dst = what a message of it in `format` holds: as whoever receives it will have it
};

struct Step {
  StepKind kind = StepKind::kCopy;
  std::int32_t peer = 0;  // group rank, or kAllPeers for signals
  Range src;              // local, but the peer's for kGet and kGetReduce
  Range dst;              // local, but the peer's for kPut
  std::int32_t signal = 0;
  Range other;                           // local, of kDots and kWeigh
  std::int32_t format = RODA_WIRE_NONE;  // roda_wire_format of a message, and of kRound; equal on both sides
  // 0, or src of kSend, or dst of kRound, is not rounded to `format` yet: what was lost of the chunk in the step before
  // was lost of a sum of so many values like these.
  std::int32_t lost_of = 0;

  friend bool operator==(const Step&, const Step&) = default;
};

// Steps of one lane run in order; lanes run side by side and never touch each other's data or signals. Messages match
// between equal lane numbers.
struct Lane {
  std::vector<Step> steps;
};

// Whose data a chunk is, and so how long it is: what rank `from` has for rank `to`. -1: every rank. Of an allreduce or
// broadcast `to` numbers the parts of the data.
struct Block {
  std::int32_t from = -1;
  std::int32_t to = -1;

  friend auto operator<=>(const Block&, const Block&) = default;
};

// Ranks in the order of a group; shared by all who name the group.
using Members = std::shared_ptr<const std::vector<std::int32_t>>;

// The name of a transport's own collective, where else an algorithm's stands.
inline constexpr const char* kNative = "native";

// Signals are numbered below this, over all lanes of a schedule.
inline constexpr std::int32_t kMaxSignals = 4;

// What one rank takes part in, and into how many chunks the data are cut.
struct Outline {
  std::string algorithm;
  Collective collective = Collective::kAllreduce;
  std::int32_t rank = 0;
  std::int32_t size = 1;
  std::int32_t root = 0;
  std::int32_t chunks = 1;  // of Input and Output (see above; reduce-scatter's Output has one)
  std::int32_t product_chunks = 0;
  bool scratch_is_own = false;  // every scratch chunk is as long as chunk `rank`
  bool in_place = true;         // allreduce: Output holds the contribution; false: Input does

  friend bool operator==(const Outline&, const Outline&) = default;
};

struct Schedule : Outline {
  // Each as large as the largest chunk; what scratch chunk i holds is as long as chunk i % chunks of the data, unless
  // scratch_is_own. Not for alltoall, where chunks of one number differ in length between ranks.
  std::int32_t scratch_chunks = 0;
  bool reads_linger = false;  // peers may still read this rank's Input when its schedule has ended
  std::vector<Lane> lanes;
};

// Whether Input holds this rank's contribution; else Output does.
inline bool reads_input(const Outline& of) {
  return !of.in_place || entry_of(of.collective).input == RODA_ALL_PARTS || is_for_root(of.collective);
}

// Chunks of Input or Output; 0 where the collective, or this rank of it, does not have it.
std::int32_t chunk_count(const Outline& of, Space space);

// The chunks of Input and Output, in order.
std::vector<Block> input_blocks(const Outline& of);
std::vector<Block> output_blocks(const Outline& of);

// What a transport must offer to run a schedule.
enum Needs : std::uint32_t {
  kNeedsMessages = 1u << 0,  // kSend, kRecv, kRecvReduce
  kNeedsSignals = 1u << 1,   // kSignal, kWait
  kNeedsGet = 1u << 2,       // kGet, kGetReduce
  kNeedsPut = 1u << 3,       // kPut
};

std::uint32_t needs_of(StepKind kind);
std::uint32_t needs_of(const Schedule& schedule);
std::uint32_t needs_of(const std::vector<Schedule>& ranks);

// Whether a schedule with these Needs works on its peers' memory.
constexpr bool is_one_sided(std::uint32_t needs) { return (needs & (kNeedsGet | kNeedsPut | kNeedsSignals)) != 0; }

// Whether the kind of step has no peer, is a signal or a wait, reads a peer's memory, or writes this rank's own dst.
inline bool is_local(StepKind kind) { return needs_of(kind) == 0; }
inline bool is_signal(StepKind kind) { return needs_of(kind) == kNeedsSignals; }
inline bool reads_peer(StepKind kind) { return needs_of(kind) == kNeedsGet; }
inline bool writes_locally(StepKind kind) {
  return kind != StepKind::kSend && kind != StepKind::kPut && !is_signal(kind);
}

// One algorithm, describing itself. `make` is pure and total over the shapes that `accepts` says yes to. Any thread.
struct Algorithm {
  const char* name;     // as users write it: "ring", "recursive_doubling", ...
  const char* summary;  // one line, with the paper it is from
  Collective collective;
  std::uint32_t needs;  // Needs bits, the same for every rank and size
  std::function<bool(int size)> accepts;
  std::function<Schedule(int rank, int size, int root)> make;
  // Reductions: every element is summed up from rank 0 to the last, wherever it lies, and rounded once where all that
  // is summed can be read in one pass. Algorithms of which this is true come to the same bits.
  bool in_rank_order = false;
  std::int32_t format = RODA_WIRE_NONE;  // of all its messages (format.h)
};

// Every algorithm that is linked in, ordered by (collective, name). Names are unique per collective.
const std::vector<const Algorithm*>& algorithms();

// One of those, one of those in a wire format ("ring/int8": format.h), or of the user's (user.h); nullptr when there is
// none of that name for the collective. Valid for the life of the process.
const Algorithm* find_algorithm(Collective collective, const std::string& name);

inline const char* collective_name(Collective collective) { return entry_of(collective).users; }

// In words, for error messages, stall reports and tools.
const char* step_name(StepKind kind);  // "recv_reduce"

std::string to_text(const Range& range);  // "output[2..5)", "output[2]", "nothing"
std::string to_text(const Step& step);    // "recv_reduce output[2] = output[2] + message from 3"

}  // namespace roda::schedule
