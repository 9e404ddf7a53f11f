#include "algorithms/ranks/ring.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

// The first half of the ordered allreduce.
Schedule make(int rank, int size, int /*root*/) {
  Schedule schedule = begin("ordered", Collective::kReduceScatter, rank, size, size);
  schedule.scratch_chunks = size == 1 ? 0 : size;
  schedule.scratch_is_own = true;
  std::vector<Step>& steps = schedule.lanes[0].steps;
  for (int distance = 1; distance < size; ++distance) {
    const int to = ranks::wrap(rank + distance, size);
    steps.push_back(step::send(to, input(to)));
  }
  for (int distance = 1; distance < size; ++distance) {
    const int from = ranks::wrap(rank - distance, size);
    steps.push_back(step::recv(from, scratch(from)));
  }
  for (int peer = 0; peer < size; ++peer) {
    const Range part = peer == rank ? input(rank) : scratch(peer);
    steps.push_back(peer == 0 ? step::copy(output(0), part) : step::reduce(output(0), part));
  }
  return schedule;
}

}  // namespace

extern const Algorithm exchange_ordered_reduce_scatter = {
    "ordered",
    "each rank sums up its chunk in rank order, whatever the transport; same bits at any size and place",
    Collective::kReduceScatter,
    kNeedsMessages,
    any_size,
    make,
    true};

}  // namespace roda::schedule::registered
