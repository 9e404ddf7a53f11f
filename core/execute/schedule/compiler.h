// The parts of compile(): what one rank's schedule does not say by itself is learned by playing the schedules of all
// ranks once, without data (replay); then each chunk gets its place (placement).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "algorithms/schedule/schedule.h"
#include "core/execute/schedule/program.h"
#include "plugins/base/status.h"

namespace roda::execute {

inline constexpr const char* kScatteredScratch = ": reads Scratch that does not hold one run of chunks";

// What each chunk of Scratch holds at a step: the chunks of Input or Output whose length its data has.
//
// A schedule gives Scratch chunks no length of their own; a message out of Scratch must be as long as what was put
// there. Pure; one object follows one rank's schedule.
class ScratchLabels {
 public:
  explicit ScratchLabels(std::int32_t scratch_chunks) : labels_(index(scratch_chunks)) {}

  // The operand behind a range that holds data. nullopt: Scratch that was never written, or that does not lie together.
  std::optional<Operand> read(const schedule::Range& range) const;
  // The operand for writing data as long as `like` to the range.
  Operand write(const schedule::Range& range, const Operand& like);

 private:
  struct Label {
    bool set = false;
    schedule::Space extent = schedule::Space::kOutput;
    std::int32_t chunk = 0;
    std::int32_t unit = 0;
    std::int32_t unit_first = 0;
  };
  void forget_neighbours(const schedule::Range& range);

  std::vector<Label> labels_;
};

// How long messages into Scratch are, and which chunks peers touch, when. Correct schedules order every pair of
// conflicting accesses, so the order seen in one replay holds in every run.
struct ReplayResult {
  // Per lane and step of the rank; times are > 0 and grow.
  struct StepFacts {
    std::uint64_t time = 0;
    Operand received;  // kRecv into Scratch: extent and chunks of the message
  };
  std::vector<std::vector<StepFacts>> steps;
  // Per chunk of Input [0] and Output [1] of the rank: when a peer first and last read it or wrote it, 0 for never.
  std::vector<std::uint64_t> first_peer_access[2];
  std::vector<std::uint64_t> last_peer_access[2];
  std::vector<bool> read_by;       // [size] peers that read this rank's windows
  std::vector<bool> reads_from;    // [size] peers whose windows this rank reads
  std::vector<bool> reads_linger;  // [size]
};

Status replay(const schedule::Algorithm& algorithm, int rank, int size, int root, ReplayResult* result);

// Whether two operands may share a byte.
bool overlap(const Operand& a, const Operand& b);

// Fills program->contribution.
void list_contribution(Program* program);

// Where the chunks of a one-sided program lie: in the block that peers see, or in the user's memory. Only what peers
// touch is staged, and a last write that nobody looks at goes straight to the user. Fills Operand::in_user of all ops,
// and the lists of copies, from what the replay saw.
void place(const ReplayResult& facts, Program* program);

}  // namespace roda::execute
