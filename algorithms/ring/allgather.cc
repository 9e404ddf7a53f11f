#include "algorithms/ranks/ring.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

Schedule make(int rank, int size, int /*root*/) {
  Schedule schedule = begin("ring", Collective::kAllgather, rank, size, size);
  std::vector<Step>& steps = schedule.lanes[0].steps;
  for (int round = 0; round < size - 1; ++round) {
    steps.push_back(step::send(ranks::next(rank, size), output(ranks::wrap(rank - round, size))));
    steps.push_back(step::recv(ranks::previous(rank, size), output(ranks::wrap(rank - round - 1, size))));
  }
  return schedule;
}

}  // namespace

extern const Algorithm ring_allgather = {
    "ring",
    "every chunk goes once around a ring; talks to neighbours only, P-1 rounds (Thakur et al. 2005)",
    Collective::kAllgather,
    kNeedsMessages,
    any_size,
    make};

}  // namespace roda::schedule::registered
