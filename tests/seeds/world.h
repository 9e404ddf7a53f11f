// A job whose ranks are engines of one process, on a machine that is simulated: who runs next follows from a seed, and
// so does when what is sent arrives, who dies, and when. Engines, their threads and locks, stores, control planes and
// transports (loop on a host, tcp between hosts) are the product's own.
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
