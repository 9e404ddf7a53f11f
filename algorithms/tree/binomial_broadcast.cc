#include "algorithms/ranks/binomial.h"
#include "algorithms/ranks/ring.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

Schedule make(int rank, int size, int root) {
  Schedule schedule = begin("binomial", Collective::kBroadcast, rank, size, 1);
  schedule.root = root;
  std::vector<Step>& steps = schedule.lanes[0].steps;
  const int node = ranks::wrap(rank - root, size);
  const auto rank_of = [=](int other) { return ranks::wrap(other + root, size); };
  if (node != 0) steps.push_back(step::recv(rank_of(ranks::binomial_parent(node)), output(0)));
  for (const int child : ranks::binomial_children(node, size)) {
    steps.push_back(step::send(rank_of(child), output(0)));
  }
  return schedule;
}

}  // namespace

extern const Algorithm tree_binomial_broadcast = {
    "binomial",
    "whole vector down a binomial tree; log2(P) rounds, for small sizes (Thakur et al. 2005)",
    Collective::kBroadcast,
    kNeedsMessages,
    any_size,
    make};

}  // namespace roda::schedule::registered
