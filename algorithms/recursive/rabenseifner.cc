#include "algorithms/ranks/fold.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

// Recursive halving leaves core rank c with chunk c complete; the same exchanges backwards give everybody all chunks.
void append_core(std::vector<Step>& steps, const ranks::Fold& fold, int core_rank) {
  for (int half = fold.core / 2; half > 0; half /= 2) {
    const int partner = fold.rank_of(core_rank ^ half);
    const int keep = core_rank & ~(half - 1);
    steps.push_back(step::send(partner, output(keep ^ half, half)));
    steps.push_back(step::recv_reduce(partner, output(keep, half)));
  }
  for (int half = 1; half < fold.core; half *= 2) {
    const int partner = fold.rank_of(core_rank ^ half);
    const int have = core_rank & ~(half - 1);
    steps.push_back(step::send(partner, output(have, half)));
    steps.push_back(step::recv(partner, output(have ^ half, half)));
  }
}

Schedule make(int rank, int size, int /*root*/) {
  const ranks::Fold fold = ranks::fold_of(size);
  Schedule schedule = begin("rabenseifner", Collective::kAllreduce, rank, size, fold.core);
  std::vector<Step>& steps = schedule.lanes[0].steps;
  const Range all = output(0, fold.core);
  const int core_rank = fold.core_rank(rank);
  const int partner = fold.partner(rank);
  if (core_rank < 0) {
    steps.push_back(step::send(partner, all));
    steps.push_back(step::recv(partner, all));
    return schedule;
  }
  if (partner >= 0) steps.push_back(step::recv_reduce(partner, all));
  append_core(steps, fold, core_rank);
  if (partner >= 0) steps.push_back(step::send(partner, all));
  return schedule;
}

}  // namespace

extern const Algorithm recursive_rabenseifner = {
    "rabenseifner",
    "recursive halving, then doubling; least bytes in 2 log2(P) rounds (Rabenseifner 2004)",
    Collective::kAllreduce,
    kNeedsMessages,
    any_size,
    make};

}  // namespace roda::schedule::registered
