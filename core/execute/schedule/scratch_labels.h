// What each chunk of Scratch holds at a step: the chunks of Input or Output whose length its data has.
//
// A schedule gives Scratch chunks no length of their own; a message out of Scratch must be as long as what was put
// there. Pure; one object follows one rank's schedule.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "algorithms/schedule/schedule.h"
#include "core/execute/schedule/program.h"

namespace roda::execute {

class ScratchLabels {
 public:
  explicit ScratchLabels(std::int32_t scratch_chunks) : labels_(static_cast<std::size_t>(scratch_chunks)) {}

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

}  // namespace roda::execute
