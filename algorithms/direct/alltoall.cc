#include "algorithms/ranks/ring.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

Schedule make(int rank, int size, int /*root*/) {
  Schedule schedule = begin("direct", Collective::kAlltoall, rank, size, size);
  std::vector<Step>& steps = schedule.lanes[0].steps;
  if (size > 1) steps.push_back(step::signal(kAllPeers));
  steps.push_back(step::copy(output(rank), input(rank)));
  if (size == 1) return schedule;
  for (int distance = 1; distance < size; ++distance) {
    const int peer = ranks::wrap(rank + distance, size);
    steps.push_back(step::wait(peer));
    steps.push_back(step::get(peer, output(peer), input(rank)));
  }
  append_handshake(steps);
  return schedule;
}

}  // namespace

extern const Algorithm direct_alltoall = {"direct",
                                          "each rank reads its chunk of every peer; two handshakes (MSCCL++, 2025)",
                                          Collective::kAlltoall,
                                          kNeedsSignals | kNeedsGet,
                                          any_size,
                                          make};

}  // namespace roda::schedule::registered
