#include "algorithms/ranks/ring.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

// Rank r completes chunk r alone, so all ranks end with the same bits. Everybody starts at another peer, so that no
// memory is read by all at once. A chunk of another rank's is overwritten only when that rank has announced that it is
// complete: then it has also been read.
Schedule make(int rank, int size, int /*root*/) {
  Schedule schedule = begin("direct", Collective::kAllreduce, rank, size, size);
  if (size == 1) return schedule;
  std::vector<Step>& steps = schedule.lanes[0].steps;
  append_handshake(steps);
  for (int distance = 1; distance < size; ++distance) {
    steps.push_back(step::get_reduce(ranks::wrap(rank + distance, size), output(rank), output(rank)));
  }
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

extern const Algorithm direct_allreduce = {
    "direct",
    "in place: each rank reduces its chunk out of all peers' memory, then reads the others (MSCCL++, 2025)",
    Collective::kAllreduce,
    kNeedsSignals | kNeedsGet,
    any_size,
    make};

}  // namespace roda::schedule::registered
