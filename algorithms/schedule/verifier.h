// Proves a schedule right without running it: executes the schedules of all ranks symbolically.
//
// What is checked: every rank ends with exactly what the collective promises, each contribution counted once, and with
// the same bits on all ranks (reductions are commutative here, not associative); no deadlock even if no message is
// buffered; nothing is read before it is defined, or written while a peer may still read it, where "before" means
// ordered by messages and signals and not by luck; lanes share no data and no signals; ranges, peers and signals exist;
// messages match in length; every signal is waited for. One run decides: what a step waits for is fixed by its place in
// the schedule, so all orders of execution end alike unless a data race is found.
//
// Pure functions, any thread. Cost: about steps x size of the group.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "algorithms/schedule/schedule.h"

namespace roda::schedule {

// The first thing found wrong, and where.
struct Violation {
  std::string algorithm;
  int rank = 0;
  int lane = 0;   // -1: the rank as a whole
  int step = -1;  // -1: at the end, or the schedule as a whole
  std::string message;

  std::string to_text() const;  // "ring: rank 2, lane 0, step 5: message"
};

// `ranks[r]` is the schedule of rank r. nullopt: right.
std::optional<Violation> verify(const std::vector<Schedule>& ranks);

}  // namespace roda::schedule
