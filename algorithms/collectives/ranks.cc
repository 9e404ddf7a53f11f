#include "algorithms/collectives/ranks.h"

#include <algorithm>
#include <bit>

namespace roda::ranks {
namespace {

// Nodes of the binomial tree below this distance from `node` are its descendants.
int reach(int node, int size) {
  return node != 0 ? node & -node : static_cast<int>(std::bit_ceil(static_cast<unsigned>(size)));
}

// Places 1..size of the first tree in symmetric order: odd places are leaves, and place i is as high as i has trailing
// zeros. Where the full tree would have a place beyond `size`, that place's left subtree moves up.

int parent_place(int place, int size) {
  const int bit = place & -place;
  const int above = (place ^ bit) | (bit << 1);
  return above <= size ? above : place ^ bit;  // 0: the root
}

std::vector<int> child_places(int place, int size) {
  const int bit = place & -place;
  std::vector<int> children;
  if (bit > 1) children.push_back(place - bit / 2);
  for (int step = bit / 2; step > 0; step /= 2) {
    if (place + step > size) continue;
    children.push_back(place + step);
    break;
  }
  return children;
}

// The second tree is the first with its places mirrored (even sizes) or moved by one (odd sizes): both turn the odd
// places, where leaves are, into even ones.

int place_of(int tree, int node, int size) {
  if (tree == 0) return node + 1;
  return size % 2 == 0 ? size - node : (node + 1) % size + 1;
}

int node_at(int tree, int place, int size) {
  if (tree == 0) return place - 1;
  return size % 2 == 0 ? size - place : (place + size - 2) % size;
}

}  // namespace

int binomial_parent(int node) { return node == 0 ? -1 : node & (node - 1); }

std::vector<int> binomial_children(int node, int size) {
  std::vector<int> children;
  for (int bit = reach(node, size) / 2; bit > 0; bit /= 2) {
    if (node + bit < size) children.push_back(node + bit);
  }
  return children;
}

int binomial_span(int node, int size) { return std::min(reach(node, size), size - node); }

TreeNode double_tree_node(int tree, int node, int size) {
  const int place = place_of(tree, node, size);
  TreeNode result;
  if (const int above = parent_place(place, size); above != 0) result.parent = node_at(tree, above, size);
  for (const int child : child_places(place, size)) result.children.push_back(node_at(tree, child, size));
  return result;
}

int double_tree_root(int tree, int size) { return node_at(tree, fold_of(size).core, size); }

int Fold::core_rank(int rank) const {
  if (rank >= 2 * rest) return rank - rest;
  return rank % 2 == 1 ? rank / 2 : -1;
}

Fold fold_of(int size) {
  const auto core = static_cast<int>(std::bit_floor(static_cast<unsigned>(size)));
  return {core, size - core, std::countr_zero(static_cast<unsigned>(core))};
}

}  // namespace roda::ranks
