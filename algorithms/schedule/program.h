// A program is what a rank runs. The verifier plays the very value that the executor runs. There are three kinds:
//
//   of an algorithm    its schedule made ready: operands resolved, steps fused, signal counts fixed, copies known
//   of a composition   one lane of copies and calls (plan/compile.h); the programs of the calls are part of the value
//   native             a transport's own collective, without ops
//
// Pure: made once per (algorithm or plan, rank, size, root) and shared by all runs of a stage. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "algorithms/schedule/schedule.h"

namespace roda::schedule {

// Chunks of Input or Output, or of a copy of the data in Scratch; of a composition, chunks of Scratch by their numbers.
// count == 0: no data.
struct Operand {
  Space space = Space::kOutput;
  Space data = Space::kOutput;  // Input or Output: whose chunks they are
  std::int32_t first = 0;
  std::int32_t count = 0;
  std::int32_t copy = 0;  // Scratch only
  bool in_user = false;   // one-sided: lies in the user's memory, not in the block
  friend bool operator==(const Operand&, const Operand&) = default;
};

// kRound: dst = what a message of it in `format` holds.
enum class OpKind : std::uint8_t {
  kSend,
  kRecv,
  kRecvReduce,
  kCombine,
  kPut,
  kSignal,
  kWait,
  kDots,
  kWeigh,
  kRound,
  kCall
};

// One operand of a kCombine.
struct Source {
  std::int32_t peer = -1;  // -1: local
  Operand operand;
  friend bool operator==(const Source&, const Source&) = default;
};

struct Op {
  OpKind kind = OpKind::kSend;
  std::int32_t peer = 0;  // kAllPeers for signals
  std::int32_t signal = 0;
  std::uint32_t value = 0;   // kSignal: the count to publish; kWait: the count to wait for
  Operand src;               // kSend, kPut: what is sent; kRecvReduce: what the message is added to; kCall
  Operand dst;               // kPut: the peer's
  Operand other;             // kDots, kWeigh
  bool publishes = false;    // kCombine, one-sided: dst lies in the user's memory; a copy goes into the block
  std::uint32_t source = 0;  // kCombine: dst = sources[source] op sources[source + 1] op ...; kCall: of Program::calls
  std::uint32_t sources = 0;
  std::uint32_t step = 0;  // of the schedule's lane
  std::int32_t format = RODA_WIRE_NONE;
  std::int32_t lost_of = 0;  // Step's
  friend bool operator==(const Op&, const Op&) = default;
};

struct LaneProgram {
  std::vector<Op> ops;
  std::uint32_t sends = 0;
  friend bool operator==(const LaneProgram&, const LaneProgram&) = default;
};

// Consecutive chunks of Input or Output.
struct ChunkRun {
  Space space = Space::kOutput;
  std::int32_t first = 0;
  std::int32_t count = 0;
  friend bool operator==(const ChunkRun&, const ChunkRun&) = default;
};

inline constexpr std::int32_t kNobody = -2;  // beside kAllPeers

struct Program;

// A collective among some of the ranks. The op that calls it says what it reads and writes: as much as its program,
// each of whose chunks may be several here.
struct Call {
  std::shared_ptr<const Program> program;  // this rank's, whose number in it is its place among the members
  std::int32_t stage = 0;                  // of the plan
  Members members;
  // [members] Where chunks belong to members: the first chunk of src (reduce-scatter, alltoall) or dst (allgather,
  // alltoall) that is not for, or not from, that member.
  std::vector<std::int32_t> src_ends;
  std::vector<std::int32_t> dst_ends;
  std::int32_t most_blocks = 0;  // alltoall: from one member to another, the largest number in the group

  friend bool operator==(const Call&, const Call&) = default;
};

// Consecutive chunks of a composition's Scratch that are written together. Regions of one buffer share memory: what one
// holds is not needed any more when the next one is written.
struct Region {
  std::int32_t first = 0;
  std::int32_t count = 0;
  std::int32_t buffer = 0;
  friend bool operator==(const Region&, const Region&) = default;
};

struct Program : Outline {
  // Scratch: copies of Input or Output, or of the chunk with this rank's number alone.
  std::int32_t scratch_copies = 0;
  Space scratch_of = Space::kOutput;
  // Every rank sums up the chunk of its number in one kCombine, and all others copy the result: whoever sums can scale
  // for all.
  bool sums_own_chunks = false;
  std::uint32_t needs = 0;    // Needs bits
  bool is_native = false;     // a transport's own collective, which has no lanes
  bool is_formatted = false;  // some message has a wire format; of a composition, of any of its ranks

  std::vector<LaneProgram> lanes;
  std::vector<Source> sources;
  std::uint32_t most_sources = 0;  // of one kCombine

  // One-sided schedules: whether peers touch this rank's Input or Output, and when their reads of Input may end late.
  bool window[2] = {false, false};
  // Per chunk of Input and Output in the block: the peer that reads it, kNobody, or kAllPeers for several.
  std::vector<std::int32_t> readers[2];
  std::vector<std::int32_t> late_readers;  // peers whose last use must be waited for before Input changes
  std::vector<std::int32_t> tell_readers;  // peers that wait for this rank's last use

  // Where this rank's contribution lies in Output at the start (it comes from the user's input).
  std::vector<ChunkRun> contribution;
  // One-sided: whether any chunk lies in the block; contribution to bring into the block, to carry straight to the
  // user's output, results to bring out.
  bool uses_block = false;
  std::vector<ChunkRun> copy_in;
  std::vector<ChunkRun> carry;
  std::vector<ChunkRun> copy_out;

  // The rest is for compositions. Their kCombines are copies, and Input holds the contribution, in a broadcast the
  // root's.
  std::int32_t stages = -1;     // of its plan, on every rank; -1: it is none
  std::vector<Call> calls;      // in the order of the ops
  std::vector<Block> scratch;   // whose data each chunk of Scratch is
  std::vector<Region> regions;  // of Scratch, in the order in which they are written

  bool is_composed() const { return stages >= 0; }
  bool one_sided() const { return is_one_sided(needs); }
  std::span<const Source> sources_of(const Op& op) const { return {sources.data() + op.source, op.sources}; }
  std::span<Source> sources_of(const Op& op) { return {sources.data() + op.source, op.sources}; }
  friend bool operator==(const Program&, const Program&) = default;
};

// Whether stages that run a schedule take buckets (see StageArgs::bucket): the one-sided allreduces do. `of`: an
// Algorithm or a Program.
bool takes_buckets(const auto& of) { return of.collective == Collective::kAllreduce && is_one_sided(of.needs); }

// Chunks of Input or Output.
std::int32_t chunks_of(Collective collective, Space space, std::int32_t chunks, std::int32_t size);

// The rank's program. What is wrong: the algorithm refuses the size, or its schedule can't be bound to memory: peers
// reach into Scratch, the chunks of a range of Scratch are no neighbours in the data, or ranks wait for each other for
// ever.
std::optional<std::string> compile(const Algorithm& algorithm, int rank, int size, int root, Program* program);

// A transport's own collective.
Program native_program(Collective collective, int rank, int size, int root);

// A composition of one call, of the program among all ranks.
Program around(std::shared_ptr<const Program> program);

// All ranks' programs, of their schedules; `needs`: of the algorithm.
struct Compiled {
  std::vector<Program> ranks;
  std::optional<std::string> wrong;
  bool ends = true;  // false: the ranks wait for each other for ever
};
Compiled compile(const std::vector<Schedule>& ranks, std::uint32_t needs);

// "recv_reduce output[2] = output[2] + message from 3", "call output[0] = input[0] by allreduce/ring among ranks 1, 3".
std::string to_text(const Op& op, const Program& program);
// A heading and one line for each op.
std::string to_text(const Program& program);

// The step that the op stands for; of a kCombine, the one that brings its source number `source`.
StepKind step_of(const Program& program, const Op& op, std::size_t source = 0);

}  // namespace roda::schedule
