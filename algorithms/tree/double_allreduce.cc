#include "algorithms/ranks/double_tree.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

// Lane t reduces chunk t to the root of tree t and broadcasts it from there.
Schedule make(int rank, int size, int /*root*/) {
  Schedule schedule = begin("double_binary_tree", Collective::kAllreduce, rank, size, 2, 2);
  for (int tree = 0; tree < 2; ++tree) {
    std::vector<Step>& steps = schedule.lanes[static_cast<std::size_t>(tree)].steps;
    const ranks::TreeNode node = ranks::double_tree_node(tree, rank, size);
    for (const int child : node.children) steps.push_back(step::recv_reduce(child, output(tree)));
    if (node.parent >= 0) {
      steps.push_back(step::send(node.parent, output(tree)));
      steps.push_back(step::recv(node.parent, output(tree)));
    }
    for (const int child : node.children) steps.push_back(step::send(child, output(tree)));
  }
  return schedule;
}

}  // namespace

extern const Algorithm tree_double_allreduce = {
    "double_binary_tree",
    "each half up and down one of two complementary trees; 2 log2(P) rounds (Sanders, Speck & Traeff 2009)",
    Collective::kAllreduce,
    kNeedsMessages,
    any_size,
    make};

}  // namespace roda::schedule::registered
