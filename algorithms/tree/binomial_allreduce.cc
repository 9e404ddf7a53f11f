#include "algorithms/ranks/binomial.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

Schedule make(int rank, int size, int /*root*/) {
  Schedule schedule = begin("binomial", Collective::kAllreduce, rank, size, 1);
  std::vector<Step>& steps = schedule.lanes[0].steps;
  const int parent = ranks::binomial_parent(rank);
  const std::vector<int> children = ranks::binomial_children(rank, size);
  // The smallest subtree is ready first; on the way down the largest is served first.
  for (auto child = children.rbegin(); child != children.rend(); ++child) {
    steps.push_back(step::recv_reduce(*child, output(0)));
  }
  if (parent >= 0) {
    steps.push_back(step::send(parent, output(0)));
    steps.push_back(step::recv(parent, output(0)));
  }
  for (const int child : children) steps.push_back(step::send(child, output(0)));
  return schedule;
}

}  // namespace

extern const Algorithm tree_binomial_allreduce = {
    "binomial",
    "reduces to rank 0 and broadcasts along a binomial tree; fewest messages, 2(P-1) (Thakur et al. 2005)",
    Collective::kAllreduce,
    kNeedsMessages,
    any_size,
    make};

}  // namespace roda::schedule::registered
