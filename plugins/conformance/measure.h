// Messages and native collectives of a transport at its own surface: no engine, no algorithm, one call of the table
// per step. What a transport adds to its library is the difference to the library's own benchmark.
#pragma once

#include <cstddef>
#include <vector>

#include "plugins/conformance/kit.h"

namespace roda::conformance {

struct Measuring {
  // Ping-pong, streams of messages, both of them, or the native collectives in place of messages.
  enum class What { kNothing, kLatency, kBandwidth, kMessages, kCollectives };
  enum class Wait {
    kSpin,   // progress() without end: a core per rank
    kYield,  // the same, giving the core away after each turn without an event
    kSleep,  // arm(), then the descriptor
  };

  What what = What::kNothing;
  Wait wait = Wait::kSpin;
  std::vector<std::size_t> sizes{8, 65536, 1u << 20};
  int rounds = 20000;  // of 8 bytes; fewer for long messages, so that every size takes about as long
  int window = 32;     // messages in flight in the bandwidth test
  int repeats = 3;
};

// As a case, which may take as long as it likes. Rank 0 prints a line per test and size; ranks above 1 take part in
// forming and in collectives.
Case measurement(const Measuring& how);

}  // namespace roda::conformance
