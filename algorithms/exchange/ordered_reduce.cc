#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

// The root has all contributions side by side before it writes its Output, which may be its Input.
Schedule make(int rank, int size, int root) {
  Schedule schedule = begin("ordered", Collective::kReduce, rank, size, 1);
  schedule.root = root;
  std::vector<Step>& steps = schedule.lanes[0].steps;
  if (rank != root) {
    steps.push_back(step::send(root, input(0)));
    return schedule;
  }
  const bool moves_own = root != 0;
  schedule.scratch_chunks = size == 1 ? 0 : size;
  for (int from = 0; from < size; ++from) {
    if (from != root) steps.push_back(step::recv(from, scratch(from)));
  }
  if (moves_own) steps.push_back(step::copy(scratch(root), input(0)));
  for (int from = 0; from < size; ++from) {
    const Range part = from == root && !moves_own ? input(0) : scratch(from);
    steps.push_back(from == 0 ? step::copy(output(0), part) : step::reduce(output(0), part));
  }
  return schedule;
}

}  // namespace

extern const Algorithm exchange_ordered_reduce = {
    "ordered",
    "the root sums up in rank order, whatever the transport; same bits at any size and place",
    Collective::kReduce,
    kNeedsMessages,
    any_size,
    make,
    true};

}  // namespace roda::schedule::registered
