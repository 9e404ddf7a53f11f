// Two binary trees over the same nodes 0..size-1, in which no node has children in both (Sanders, Speck, Traeff:
// "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009). Half of the data goes over each, so
// that every node sends and receives all the time.
#pragma once

#include <vector>

namespace roda::ranks {

struct TreeNode {
  int parent = -1;  // -1 for the root
  std::vector<int> children;
};

// `tree` is 0 or 1; the height is at most ceil(log2(size + 1)).
TreeNode double_tree_node(int tree, int node, int size);

int double_tree_root(int tree, int size);

}  // namespace roda::ranks
