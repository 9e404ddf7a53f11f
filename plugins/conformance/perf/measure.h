// Messages and native collectives of a transport at its own surface: no engine, no algorithm, one call of the table
// per step. What a transport adds to its library is the difference to the library's own benchmark.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plugins/conformance/kit.h"

namespace roda::conformance::perf {

enum class Wait {
  kSpin,   // progress() without end: a core per rank
  kYield,  // the same, giving the core away after each turn without an event
  kSleep,  // arm(), then the descriptor
};

struct Options {
  std::vector<std::size_t> sizes{8, 65536, 1u << 20};
  int rounds = 20000;  // of 8 bytes; fewer for long messages, so that every size takes about as long
  int window = 32;     // messages in flight in the bandwidth test
  int repeats = 3;
  Wait wait = Wait::kSpin;
  bool latency = true;
  bool bandwidth = true;
  bool collectives = false;  // the transport's own, in place of messages
};

// One rank's part. Rank 0 prints a line per test and size; ranks above 1 take part in forming and in collectives.
// Throws CaseFailure.
void run(Env& env, const Options& options);

}  // namespace roda::conformance::perf
