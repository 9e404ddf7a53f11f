#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

// As direct, but in rank order: the bits do not depend on whose chunk an element is in.
Schedule make(int rank, int size, int /*root*/) {
  Schedule schedule = begin("direct_ordered", Collective::kReduceScatter, rank, size, size);
  std::vector<Step>& steps = schedule.lanes[0].steps;
  if (size > 1) append_handshake(steps);
  for (int peer = 0; peer < size; ++peer) {
    const bool first = peer == 0;
    if (peer == rank) {
      steps.push_back(first ? step::copy(output(0), input(rank)) : step::reduce(output(0), input(rank)));
    } else {
      steps.push_back(first ? step::get(peer, output(0), input(rank)) : step::get_reduce(peer, output(0), input(rank)));
    }
  }
  if (size > 1) append_handshake(steps);
  return schedule;
}

}  // namespace

extern const Algorithm direct_ordered_reduce_scatter = {
    "direct_ordered",
    "like direct, every element summed in rank order; same bits at any size and place (MSCCL++, 2025)",
    Collective::kReduceScatter,
    kNeedsSignals | kNeedsGet,
    any_size,
    make,
    true};

}  // namespace roda::schedule::registered
