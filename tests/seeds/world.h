// A job whose ranks are engines in one process, without a thread: who moves next follows from a seed, and so does who
// dies, and when. The engine, its negotiation, the log and the launches are the product's own; data travel over the
// transport "loop".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/engine.h"
#include "tests/seeds/job.h"

namespace roda::seeds {

struct Outcome {
  std::string wrong;        // "": all went as it must
  std::uint64_t steps = 0;  // of all ranks
  std::uint64_t trace = 0;  // a digest of all that happened
  std::size_t calls = 0;    // that ended well, over all ranks
  std::optional<int> victim;
};

// Plays the job of a seed. `tells`: each event is a line on standard output.
Outcome play(std::uint64_t seed, bool tells);

}  // namespace roda::seeds
