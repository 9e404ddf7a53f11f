#include "algorithms/ranks/binomial.h"
#include "algorithms/ranks/ring.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

// The chunks that the scatter leaves at `node`: those of its subtree.
bool has_from_scatter(int node, int chunk, int size) {
  return chunk >= node && chunk < node + ranks::binomial_span(node, size);
}

// Binomial scatter of the chunks, then a ring that leaves out what its receiver already has. All in numbers relative to
// the root.
Schedule make(int rank, int size, int root) {
  Schedule schedule = begin("scatter_allgather", Collective::kBroadcast, rank, size, size);
  schedule.root = root;
  std::vector<Step>& steps = schedule.lanes[0].steps;
  const int node = ranks::wrap(rank - root, size);
  const auto rank_of = [=](int other) { return ranks::wrap(other + root, size); };
  const auto subtree = [=](int top) { return output(top, ranks::binomial_span(top, size)); };
  if (node != 0) steps.push_back(step::recv(rank_of(ranks::binomial_parent(node)), subtree(node)));
  for (const int child : ranks::binomial_children(node, size)) {
    steps.push_back(step::send(rank_of(child), subtree(child)));
  }
  const int next = ranks::next(node, size);
  for (int round = 0; round < size - 1; ++round) {
    const int sent = ranks::wrap(node - round, size);
    const int received = ranks::previous(sent, size);
    if (!has_from_scatter(next, sent, size)) steps.push_back(step::send(rank_of(next), output(sent)));
    if (!has_from_scatter(node, received, size)) {
      steps.push_back(step::recv(rank_of(ranks::previous(node, size)), output(received)));
    }
  }
  return schedule;
}

}  // namespace

extern const Algorithm tree_scatter_allgather = {
    "scatter_allgather",
    "scatters down a binomial tree, then a ring; few bytes per rank (van de Geijn, 1994)",
    Collective::kBroadcast,
    kNeedsMessages,
    any_size,
    make};

}  // namespace roda::schedule::registered
