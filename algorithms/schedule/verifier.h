// Proves right what the executor runs, without running it: plays the programs of all ranks symbolically.
//
// What is checked: every rank ends with exactly what the collective promises, each contribution counted once, and with
// the same bits on all ranks (reductions are commutative here, not associative); no deadlock even if no message is
// buffered; nothing is read before it is defined, or written while a peer may still read it, where "before" means
// ordered by messages and signals and not by luck; lanes share no data and no signals; ranges, peers and signals exist;
// messages match in length; every signal is waited for. One run decides: what an op waits for is fixed by its place in
// the program, so all orders of execution end alike unless a data race is found.
//
// A program is played in each way in which the executor may run it: with the input apart from the output or in it, with
// peers that look into a block or into the user's memory, out of a bucket, and ranks that differ in that.
//
// Messages in a wire format round what they hold. That is a value of its own, which stays as it is when it is rounded
// to that format once more; stochastic rounding is another on every rank.
//
// Of compositions besides: the members of a group make the same calls in the same order, which is all that tells native
// ones apart; no region is read after another of its buffer was written. A library's own collective, whose insides
// nobody sees, is played as an algorithm of messages.
//
// Pure functions, any thread. Cost: about ops x size of the group.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "algorithms/schedule/program.h"
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

// `*ranks[r]` is the program of rank r. nullopt: right. *roundings: how many roundings to a wire format, at most, some
// rank's contribution to some result has gone through.
std::optional<Violation> verify(const std::vector<const Program*>& ranks, int* roundings = nullptr);
std::optional<Violation> verify(const std::vector<Program>& ranks, int* roundings = nullptr);

// Compiles the schedules and proves the programs.
std::optional<Violation> verify(const std::vector<Schedule>& ranks, int* roundings = nullptr);

}  // namespace roda::schedule
