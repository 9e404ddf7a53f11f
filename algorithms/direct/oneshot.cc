#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

// Everybody reduces everything in rank order, so all ranks end with the same bits. One handshake, and nobody waits for
// the others' reads. Nothing stands between the reads: they can be done in one pass.
Schedule make(int rank, int size, int /*root*/) {
  Schedule schedule = begin("oneshot", Collective::kAllreduce, rank, size, 1);
  schedule.in_place = false;
  schedule.reads_linger = size > 1;
  std::vector<Step>& steps = schedule.lanes[0].steps;
  if (size > 1) append_handshake(steps);
  for (int peer = 0; peer < size; ++peer) {
    const bool first = peer == 0;
    if (peer == rank) {
      steps.push_back(first ? step::copy(output(0), input(0)) : step::reduce(output(0), input(0)));
    } else {
      steps.push_back(first ? step::get(peer, output(0), input(0)) : step::get_reduce(peer, output(0), input(0)));
    }
  }
  return schedule;
}

}  // namespace

extern const Algorithm direct_oneshot = {
    "oneshot",
    "out of place: each rank reduces all of everybody's memory; one handshake, small sizes (MSCCL++, 2025)",
    Collective::kAllreduce,
    kNeedsSignals | kNeedsGet,
    any_size,
    make,
    true};

}  // namespace roda::schedule::registered
