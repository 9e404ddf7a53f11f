#include "algorithms/ranks/ring.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

Schedule make(int rank, int size, int /*root*/) {
  Schedule schedule = begin("direct", Collective::kReduceScatter, rank, size, size);
  std::vector<Step>& steps = schedule.lanes[0].steps;
  if (size > 1) append_handshake(steps);
  steps.push_back(step::copy(output(0), input(rank)));
  if (size == 1) return schedule;
  for (int distance = 1; distance < size; ++distance) {
    steps.push_back(step::get_reduce(ranks::wrap(rank + distance, size), output(0), input(rank)));
  }
  append_handshake(steps);
  return schedule;
}

}  // namespace

extern const Algorithm direct_reduce_scatter = {
    "direct",
    "each rank reduces its chunk out of all peers' memory; two handshakes (MSCCL++, 2025)",
    Collective::kReduceScatter,
    kNeedsSignals | kNeedsGet,
    any_size,
    make};

}  // namespace roda::schedule::registered
