#include "algorithms/ranks/ring.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

Schedule make(int rank, int size, int root) {
  Schedule schedule = begin("direct", Collective::kReduce, rank, size, 1);
  schedule.root = root;
  std::vector<Step>& steps = schedule.lanes[0].steps;
  if (rank != root) {
    steps.push_back(step::signal(root));
    steps.push_back(step::wait(root));
    return schedule;
  }
  steps.push_back(step::copy(output(0), input(0)));
  if (size == 1) return schedule;
  for (int distance = 1; distance < size; ++distance) {
    const int peer = ranks::wrap(rank + distance, size);
    steps.push_back(step::wait(peer));
    steps.push_back(step::get_reduce(peer, output(0), input(0)));
  }
  steps.push_back(step::signal(kAllPeers));
  return schedule;
}

}  // namespace

extern const Algorithm direct_reduce = {
    "direct",
    "the root reduces out of all peers' memory and tells them so; one round (MSCCL++, 2025)",
    Collective::kReduce,
    kNeedsSignals | kNeedsGet,
    any_size,
    make};

}  // namespace roda::schedule::registered
