#include "algorithms/ranks/ring.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

Schedule make(int rank, int size, int /*root*/) {
  Schedule schedule = begin("pairwise", Collective::kReduceScatter, rank, size, size);
  std::vector<Step>& steps = schedule.lanes[0].steps;
  if (size == 1) steps.push_back(step::copy(output(0), input(0)));
  for (int distance = 1; distance < size; ++distance) {
    const int to = ranks::wrap(rank + distance, size);
    const int from = ranks::wrap(rank - distance, size);
    steps.push_back(step::send(to, input(to)));
    steps.push_back(step::recv_reduce(from, output(0), distance == 1 ? input(rank) : output(0)));
  }
  return schedule;
}

}  // namespace

extern const Algorithm exchange_reduce_scatter = {
    "pairwise",
    "every rank sends each chunk to its owner; no scratch memory, P-1 rounds (Thakur et al. 2005)",
    Collective::kReduceScatter,
    kNeedsMessages,
    any_size,
    make};

}  // namespace roda::schedule::registered
