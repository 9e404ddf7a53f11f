#include "algorithms/ranks/fold.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

// The chunks of the ranks that core ranks first .. first + count - 1 stand for.
Range chunks_of(const ranks::Fold& fold, Space space, int first, int count) {
  const int begin = fold.first_of(first);
  return {space, begin, fold.first_of(first + count) - begin};
}

// Halves what this rank is responsible for until only its own chunks (two, if another rank is folded into it) are left.
// The first exchange reads Input unless the folding has filled Scratch already.
void append_core(std::vector<Step>& steps, const ranks::Fold& fold, int core_rank) {
  Space current = fold.partner(fold.rank_of(core_rank)) >= 0 ? Space::kScratch : Space::kInput;
  for (int half = fold.core / 2; half > 0; half /= 2) {
    const int partner = fold.rank_of(core_rank ^ half);
    const int keep = core_rank & ~(half - 1);
    steps.push_back(step::send(partner, chunks_of(fold, current, keep ^ half, half)));
    steps.push_back(
        step::recv_reduce(partner, chunks_of(fold, Space::kScratch, keep, half), chunks_of(fold, current, keep, half)));
    current = Space::kScratch;
  }
}

Schedule make(int rank, int size, int /*root*/) {
  Schedule schedule = begin("recursive_halving", Collective::kReduceScatter, rank, size, size);
  std::vector<Step>& steps = schedule.lanes[0].steps;
  const ranks::Fold fold = ranks::fold_of(size);
  const int core_rank = fold.core_rank(rank);
  const int partner = fold.partner(rank);
  if (size == 1) {
    steps.push_back(step::copy(output(0), input(0)));
    return schedule;
  }
  if (core_rank < 0) {
    steps.push_back(step::send(partner, input(0, size)));
    steps.push_back(step::recv(partner, output(0)));
    return schedule;
  }
  schedule.scratch_chunks = size;
  if (partner >= 0) steps.push_back(step::recv_reduce(partner, scratch(0, size), input(0, size)));
  append_core(steps, fold, core_rank);
  if (partner >= 0) steps.push_back(step::send(partner, scratch(partner)));
  steps.push_back(step::copy(output(0), scratch(rank)));
  return schedule;
}

}  // namespace

extern const Algorithm recursive_halving = {
    "recursive_halving",
    "halves the vector with log2(P) partners; least bytes in fewest rounds (Thakur et al. 2005)",
    Collective::kReduceScatter,
    kNeedsMessages,
    any_size,
    make};

}  // namespace roda::schedule::registered
