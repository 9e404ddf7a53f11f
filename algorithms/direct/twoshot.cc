#include "algorithms/ranks/ring.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

// Rank r completes chunk r, taking the contributions in rank order: the bits do not depend on where a chunk begins.
void append_reduce(std::vector<Step>& steps, int rank, int size) {
  for (int peer = 0; peer < size; ++peer) {
    const bool first = peer == 0;
    if (peer == rank) {
      steps.push_back(first ? step::copy(output(rank), input(rank)) : step::reduce(output(rank), input(rank)));
    } else {
      steps.push_back(first ? step::get(peer, output(rank), input(rank))
                            : step::get_reduce(peer, output(rank), input(rank)));
    }
  }
}

// Output chunks are read once they are announced, and the end waits until all of them were: the reads of Input lie
// before that, too.
Schedule make(int rank, int size, int /*root*/) {
  Schedule schedule = begin("twoshot", Collective::kAllreduce, rank, size, size);
  schedule.in_place = false;
  std::vector<Step>& steps = schedule.lanes[0].steps;
  if (size > 1) append_handshake(steps);
  append_reduce(steps, rank, size);
  if (size == 1) return schedule;
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

extern const Algorithm direct_twoshot = {
    "twoshot",
    "out of place: like direct, every element summed in rank order; same bits at any size (MSCCL++, 2025)",
    Collective::kAllreduce,
    kNeedsSignals | kNeedsGet,
    any_size,
    make,
    true};

}  // namespace roda::schedule::registered
