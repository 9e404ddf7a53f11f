// A job whose ranks are engines of one process, on a machine that is simulated: who runs next follows from a seed, and
// so does when what is sent arrives, who dies, and when. Engines, their threads and locks, stores, control planes and
// transports (loop on a host, tcp between hosts) are the product's own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/engine/engine.h"
#include "tests/seeds/job.h"

namespace roda::seeds {

// What is played: all that follows from the seed, or less, so that a seed that goes wrong can be cut down.
struct Play {
  std::uint64_t seed = 0;
  std::uint64_t schedule = 0;      // another order of the same job
  bool tells = false;              // each event is a line on standard output
  int ranks = 0, hosts = 0;        // at most; 0: as drawn
  std::vector<std::size_t> calls;  // the only ones, by number; empty: all
  bool has_faults = true;
};

struct Outcome {
  std::string wrong;        // "": all went as it must
  std::uint64_t steps = 0;  // of all ranks
  std::uint64_t trace = 0;  // a digest of all that happened
  std::size_t calls = 0;    // that ended well, over all ranks
  std::size_t faults = 0;
  int ranks = 0, hosts = 0;
  std::size_t job_calls = 0;  // of the job, however many ranks
};

Outcome play(const Play& what);

}  // namespace roda::seeds
