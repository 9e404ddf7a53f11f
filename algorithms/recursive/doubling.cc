#include <utility>

#include "algorithms/ranks/fold.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

// Exchanges the whole vector along each dimension of the hypercube. The sum goes back and forth between Output and
// Scratch, because what is being sent must stay as it is until the partner has it.
void append_core(std::vector<Step>& steps, const ranks::Fold& fold, int core_rank) {
  Range current = output(0);
  Range other = scratch(0);
  for (int round = 0; round < fold.rounds; ++round) {
    const int partner = fold.rank_of(core_rank ^ (1 << round));
    steps.push_back(step::send(partner, current));
    steps.push_back(step::recv_reduce(partner, other, current));
    std::swap(current, other);
  }
  if (current != output(0)) steps.push_back(step::copy(output(0), current));
}

Schedule make(int rank, int size, int /*root*/) {
  Schedule schedule = begin("recursive_doubling", Collective::kAllreduce, rank, size, 1);
  std::vector<Step>& steps = schedule.lanes[0].steps;
  const ranks::Fold fold = ranks::fold_of(size);
  const int core_rank = fold.core_rank(rank);
  const int partner = fold.partner(rank);
  if (core_rank < 0) {
    steps.push_back(step::send(partner, output(0)));
    steps.push_back(step::recv(partner, output(0)));
    return schedule;
  }
  schedule.scratch_chunks = fold.rounds > 0 ? 1 : 0;
  if (partner >= 0) steps.push_back(step::recv_reduce(partner, output(0)));
  append_core(steps, fold, core_rank);
  if (partner >= 0) steps.push_back(step::send(partner, output(0)));
  return schedule;
}

}  // namespace

extern const Algorithm recursive_doubling = {
    "recursive_doubling",
    "whole vector with log2(P) partners; fewest rounds, for small sizes (Thakur et al. 2005)",
    Collective::kAllreduce,
    kNeedsMessages,
    any_size,
    make};

}  // namespace roda::schedule::registered
