#include "algorithms/ranks/ring.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

Schedule make(int rank, int size, int /*root*/) {
  Schedule schedule = begin("pairwise", Collective::kAlltoall, rank, size, size);
  std::vector<Step>& steps = schedule.lanes[0].steps;
  steps.push_back(step::copy(output(rank), input(rank)));
  for (int distance = 1; distance < size; ++distance) {
    const int to = ranks::wrap(rank + distance, size);
    const int from = ranks::wrap(rank - distance, size);
    steps.push_back(step::send(to, input(to)));
    steps.push_back(step::recv(from, output(from)));
  }
  return schedule;
}

}  // namespace

extern const Algorithm exchange_alltoall = {
    "pairwise",
    "in round d to the rank d ahead and from the rank d behind; P-1 rounds (Thakur et al. 2005)",
    Collective::kAlltoall,
    kNeedsMessages,
    any_size,
    make};

}  // namespace roda::schedule::registered
