#include "algorithms/ranks/binomial.h"
#include "algorithms/ranks/ring.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

// Who has children sums up where its own data need not stay: the root in Output, the others in Scratch.
Schedule make(int rank, int size, int root) {
  Schedule schedule = begin("binomial", Collective::kReduce, rank, size, 1);
  schedule.root = root;
  std::vector<Step>& steps = schedule.lanes[0].steps;
  if (size == 1) {
    steps.push_back(step::copy(output(0), input(0)));
    return schedule;
  }
  const int node = ranks::wrap(rank - root, size);
  const std::vector<int> children = ranks::binomial_children(node, size);
  const Range sum = rank == root ? output(0) : scratch(0);
  schedule.scratch_chunks = 1;
  Range so_far = input(0);
  // The smallest subtree is ready first.
  for (auto child = children.rbegin(); child != children.rend(); ++child) {
    steps.push_back(step::recv_reduce(ranks::wrap(*child + root, size), sum, so_far));
    so_far = sum;
  }
  if (rank != root) steps.push_back(step::send(ranks::wrap(ranks::binomial_parent(node) + root, size), so_far));
  return schedule;
}

}  // namespace

extern const Algorithm tree_binomial_reduce = {
    "binomial",
    "up a binomial tree to the root; fewest messages, log2(P) rounds (Thakur et al. 2005)",
    Collective::kReduce,
    kNeedsMessages,
    any_size,
    make};

}  // namespace roda::schedule::registered
