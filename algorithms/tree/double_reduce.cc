#include "algorithms/ranks/double_tree.h"
#include "algorithms/ranks/ring.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

// The broadcast the other way: the trees span all ranks but the root, which takes chunk t from the top of tree t.
Schedule make(int rank, int size, int root) {
  Schedule schedule = begin("double_binary_tree", Collective::kReduce, rank, size, 2, 2);
  schedule.root = root;
  schedule.scratch_chunks = size == 1 || rank == root ? 0 : 2;
  const int node = ranks::wrap(rank - root, size) - 1;
  const auto rank_of = [=](int other) { return ranks::wrap(other + 1 + root, size); };
  for (int tree = 0; tree < 2; ++tree) {
    std::vector<Step>& steps = schedule.lanes[static_cast<std::size_t>(tree)].steps;
    if (size == 1) {
      steps.push_back(step::copy(output(tree), input(tree)));
    } else if (rank == root) {
      steps.push_back(step::recv_reduce(rank_of(ranks::double_tree_root(tree, size - 1)), output(tree), input(tree)));
    } else {
      const ranks::TreeNode place = ranks::double_tree_node(tree, node, size - 1);
      Range so_far = input(tree);
      for (const int child : place.children) {
        steps.push_back(step::recv_reduce(rank_of(child), scratch(tree), so_far));
        so_far = scratch(tree);
      }
      steps.push_back(step::send(rank_of(place.parent), so_far));  // parent -1 is the root
    }
  }
  return schedule;
}

}  // namespace

extern const Algorithm tree_double_reduce = {
    "double_binary_tree",
    "each half up one of two complementary trees; log2(P) rounds at full bandwidth (Sanders, Speck & Traeff 2009)",
    Collective::kReduce,
    kNeedsMessages,
    any_size,
    make};

}  // namespace roda::schedule::registered
