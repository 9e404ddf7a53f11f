#include "algorithms/collectives/ranks.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule {
namespace {

void dissemination_barrier(Schedule& s, int rank, int size) {
  for (int distance = 1; distance < size; distance *= 2) {
    add(s, step::send(ranks::wrap(rank + distance, size), nothing()),
        step::recv(ranks::wrap(rank - distance, size), nothing()));
  }
}

void signal_barrier(Schedule& s, int, int) { add_handshake(s); }

}  // namespace

std::vector<Algorithm> barrier_algorithms() {
  return list_of(
      Collective::kBarrier,
      {{"dissemination", "empty messages over distances 1, 2, 4 ...; log2(P) rounds (Hensgen, Finkel & Manber 1988)",
        kNeedsMessages, dissemination_barrier},
       {"signal",
        "signals everybody and waits for everybody; one round (flags, not a counter: Mellor-Crummey & Scott 1991)",
        kNeedsSignals, signal_barrier}});
}

}  // namespace roda::schedule
