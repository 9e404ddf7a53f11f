#include "algorithms/ranks/double_tree.h"
#include "algorithms/ranks/ring.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

// The trees span all ranks but the root, which feeds chunk t to the top of tree t.
Schedule make(int rank, int size, int root) {
  Schedule schedule = begin("double_binary_tree", Collective::kBroadcast, rank, size, 2, 2);
  schedule.root = root;
  if (size == 1) return schedule;
  const int node = ranks::wrap(rank - root, size) - 1;
  const auto rank_of = [=](int other) { return ranks::wrap(other + 1 + root, size); };
  for (int tree = 0; tree < 2; ++tree) {
    std::vector<Step>& steps = schedule.lanes[static_cast<std::size_t>(tree)].steps;
    if (rank == root) {
      steps.push_back(step::send(rank_of(ranks::double_tree_root(tree, size - 1)), output(tree)));
      continue;
    }
    const ranks::TreeNode place = ranks::double_tree_node(tree, node, size - 1);
    steps.push_back(step::recv(rank_of(place.parent), output(tree)));  // parent -1 is the root
    for (const int child : place.children) steps.push_back(step::send(rank_of(child), output(tree)));
  }
  return schedule;
}

}  // namespace

extern const Algorithm tree_double_broadcast = {
    "double_binary_tree",
    "each half down one of two complementary trees; log2(P) rounds at full bandwidth (Sanders, Speck & Traeff 2009)",
    Collective::kBroadcast,
    kNeedsMessages,
    any_size,
    make};

}  // namespace roda::schedule::registered
