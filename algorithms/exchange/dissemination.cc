#include "algorithms/ranks/ring.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

Schedule make(int rank, int size, int /*root*/) {
  Schedule schedule = begin("dissemination", Collective::kBarrier, rank, size, 1);
  std::vector<Step>& steps = schedule.lanes[0].steps;
  for (int distance = 1; distance < size; distance *= 2) {
    steps.push_back(step::send(ranks::wrap(rank + distance, size), nothing()));
    steps.push_back(step::recv(ranks::wrap(rank - distance, size), nothing()));
  }
  return schedule;
}

}  // namespace

extern const Algorithm exchange_dissemination = {
    "dissemination",
    "empty messages over distances 1, 2, 4 ...; log2(P) rounds (Hensgen, Finkel & Manber 1988)",
    Collective::kBarrier,
    kNeedsMessages,
    any_size,
    make};

}  // namespace roda::schedule::registered
