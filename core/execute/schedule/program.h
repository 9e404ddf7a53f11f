// A schedule made ready to run: operands resolved, steps fused, signal counts fixed, and what must be copied known.
//
// Pure: made once per (algorithm, rank, size, root) and shared by all runs of a stage.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/schedule/schedule.h"
#include "core/execute/memory.h"
#include "plugins/base/status.h"

namespace roda::execute {

// Chunks of Input or Output, or of a copy of the data in Scratch. count == 0: no data.
struct Operand {
  schedule::Space space = schedule::Space::kOutput;
  schedule::Space data = schedule::Space::kOutput;  // Input or Output: whose chunks they are
  std::int32_t first = 0;
  std::int32_t count = 0;
  std::int32_t copy = 0;  // Scratch only
  bool in_user = false;   // one-sided: lies in the user's memory, not in the block
  friend bool operator==(const Operand&, const Operand&) = default;
};

enum class OpKind : std::uint8_t { kSend, kRecv, kRecvReduce, kCombine, kPut, kSignal, kWait, kDots, kWeigh };

// One operand of a kCombine.
struct Source {
  std::int32_t peer = -1;  // -1: local
  Operand operand;
};

struct Op {
  OpKind kind = OpKind::kSend;
  std::int32_t peer = 0;  // kAllPeers for signals
  std::int32_t signal = 0;
  std::uint32_t value = 0;   // kSignal: the count to publish; kWait: the count to wait for
  Operand src;               // kSend, kPut: what is sent; kRecvReduce: what the message is added to
  Operand dst;               // kPut: the peer's
  Operand other;             // kDots, kWeigh
  bool publishes = false;    // kCombine, one-sided: dst lies in the user's memory; a copy goes into the block
  std::uint32_t source = 0;  // kCombine: dst = sources[source] op sources[source + 1] op ...
  std::uint32_t sources = 0;
  std::uint32_t step = 0;  // of the schedule's lane
};

struct LaneProgram {
  std::vector<Op> ops;
  std::uint32_t sends = 0;
};

// Consecutive chunks of Input or Output.
struct ChunkRun {
  schedule::Space space = schedule::Space::kOutput;
  std::int32_t first = 0;
  std::int32_t count = 0;
};

inline constexpr std::int32_t kNobody = -2;  // beside schedule::kAllPeers

struct Program {
  std::string algorithm;
  schedule::Collective collective = schedule::Collective::kAllreduce;
  std::int32_t rank = 0;
  std::int32_t size = 1;
  std::int32_t root = 0;
  std::int32_t chunks = 1;
  // Scratch: copies of Input or Output, or of the chunk with this rank's number alone.
  std::int32_t scratch_copies = 0;
  schedule::Space scratch_of = schedule::Space::kOutput;
  bool scratch_is_own = false;
  std::int32_t product_chunks = 0;
  bool in_place = true;
  // Every rank sums up the chunk of its number in one kCombine, and all others copy the result: whoever sums can scale
  // for all.
  bool sums_own_chunks = false;
  std::uint32_t needs = 0;  // schedule::Needs bits

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

  bool one_sided() const { return schedule::is_one_sided(needs); }
};

// Whether stages that run a schedule take buckets (see StageArgs::bucket): the one-sided allreduces do. `of`: an
// Algorithm or a Program.
bool takes_buckets(const auto& of) {
  return of.collective == schedule::Collective::kAllreduce && schedule::is_one_sided(of.needs);
}

// Chunks of Input or Output.
std::int32_t chunks_of(schedule::Collective collective, schedule::Space space, std::int32_t chunks, std::int32_t size);

// RODA_ERR_UNSUPPORTED for a schedule that can't be bound to memory: peers that reach into Scratch, or a range of
// Scratch whose chunks are no neighbours in the data.
Status compile(const schedule::Algorithm& algorithm, int rank, int size, int root, Program* program);

}  // namespace roda::execute
