#include "algorithms/ranks/ring.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

Schedule make(int rank, int size, int /*root*/) {
  Schedule schedule = begin("direct", Collective::kAllgather, rank, size, size);
  if (size == 1) return schedule;
  std::vector<Step>& steps = schedule.lanes[0].steps;
  steps.push_back(step::signal(kAllPeers));
  for (int distance = 1; distance < size; ++distance) {
    const int peer = ranks::wrap(rank + distance, size);
    steps.push_back(step::wait(peer));
    steps.push_back(step::get(peer, output(peer), output(peer)));
  }
  append_handshake(steps);
  return schedule;
}

}  // namespace

extern const Algorithm direct_allgather = {"direct",
                                           "each rank reads every peer's chunk; two handshakes (MSCCL++, 2025)",
                                           Collective::kAllgather,
                                           kNeedsSignals | kNeedsGet,
                                           any_size,
                                           make};

}  // namespace roda::schedule::registered
