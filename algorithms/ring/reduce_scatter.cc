#include "algorithms/ranks/ring.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

// Chunk c starts at rank c + 1 and is complete at rank c. What is under way lies in Scratch, as Input is read-only.
Schedule make(int rank, int size, int /*root*/) {
  Schedule schedule = begin("ring", Collective::kReduceScatter, rank, size, size);
  std::vector<Step>& steps = schedule.lanes[0].steps;
  if (size == 1) {
    steps.push_back(step::copy(output(0), input(0)));
    return schedule;
  }
  schedule.scratch_chunks = size;
  const int next = ranks::next(rank, size);
  const int previous = ranks::previous(rank, size);
  Range travelling = input(previous);
  for (int round = 1; round < size; ++round) {
    const int chunk = ranks::wrap(rank - round - 1, size);
    const Range partial = round == size - 1 ? output(0) : scratch(chunk);
    steps.push_back(step::send(next, travelling));
    steps.push_back(step::recv_reduce(previous, partial, input(chunk)));
    travelling = partial;
  }
  return schedule;
}

}  // namespace

extern const Algorithm ring_reduce_scatter = {
    "ring",
    "every chunk gathers contributions around a ring; talks to neighbours only, P-1 rounds (Thakur et al. 2005)",
    Collective::kReduceScatter,
    kNeedsMessages,
    any_size,
    make};

}  // namespace roda::schedule::registered
