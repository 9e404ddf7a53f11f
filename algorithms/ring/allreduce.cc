#include "algorithms/ranks/ring.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

// Chunk c travels the circle twice: from rank c it gathers everybody's contribution and is complete at rank c - 1, from
// there it goes to everybody.
Schedule make(int rank, int size, int /*root*/) {
  Schedule schedule = begin("ring", Collective::kAllreduce, rank, size, size);
  std::vector<Step>& steps = schedule.lanes[0].steps;
  const int next = ranks::next(rank, size);
  const int previous = ranks::previous(rank, size);
  for (int round = 0; round < size - 1; ++round) {
    steps.push_back(step::send(next, output(ranks::wrap(rank - round, size))));
    steps.push_back(step::recv_reduce(previous, output(ranks::wrap(rank - round - 1, size))));
  }
  for (int round = 0; round < size - 1; ++round) {
    steps.push_back(step::send(next, output(ranks::wrap(rank + 1 - round, size))));
    steps.push_back(step::recv(previous, output(ranks::wrap(rank - round, size))));
  }
  return schedule;
}

}  // namespace

extern const Algorithm ring_allreduce = {
    "ring",
    "reduce-scatter and allgather along a ring; least bytes, 2(P-1) rounds (Patarasuk & Yuan 2009)",
    Collective::kAllreduce,
    kNeedsMessages,
    any_size,
    make};

}  // namespace roda::schedule::registered
