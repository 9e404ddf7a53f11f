// Rank arithmetic: the circle, the binomial tree, the two complementary binary trees, the hypercube. Pure, any thread.
#pragma once

#include <vector>

namespace roda::ranks {

// Numbers on a circle: `value` moved into 0..size-1; value >= -size.
constexpr int wrap(int value, int size) { return (value + size) % size; }
constexpr int next(int rank, int size) { return wrap(rank + 1, size); }
constexpr int previous(int rank, int size) { return wrap(rank - 1, size); }

// The binomial tree over 0..size-1 with root 0: the parent of v is v without its lowest set bit; -1 for the root.
int binomial_parent(int node);
// The children of `node`, the one with the largest subtree first.
std::vector<int> binomial_children(int node, int size);
// The subtree of `node` is node .. node + binomial_span(node, size) - 1.
int binomial_span(int node, int size);

// Two binary trees over the same nodes 0..size-1, in which no node has children in both (Sanders, Speck, Traeff:
// "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009). Half of the data goes over each, so
// that every node sends and receives all the time.
struct TreeNode {
  int parent = -1;  // -1 for the root
  std::vector<int> children;
};
// `tree` is 0 or 1; the height is at most ceil(log2(size + 1)).
TreeNode double_tree_node(int tree, int node, int size);
int double_tree_root(int tree, int size);

constexpr bool is_power_of_two(int value) { return value > 0 && (value & (value - 1)) == 0; }

// Any number of ranks as a hypercube: the largest power of two of them form the core, the rest pair up with core ranks.
//
// With `rest` ranks too many, the first 2 * rest ranks form pairs (0,1) (2,3) ...: the even one is folded into the odd
// one, which is a core rank. Core ranks are numbered in the order of their ranks.
struct Fold {
  int core = 1;    // ranks of the hypercube
  int rest = 0;    // ranks folded away
  int rounds = 0;  // core == 1 << rounds

  // Number of the rank in the core, -1 when it is folded away.
  int core_rank(int rank) const;
  // The rank that has this number in the core.
  int rank_of(int core_rank) const { return core_rank < rest ? 2 * core_rank + 1 : core_rank + rest; }
  // The other rank of the pair, -1 when the rank is in none.
  int partner(int rank) const { return rank < 2 * rest ? rank ^ 1 : -1; }
  // Ranks first_of(c) .. first_of(c + 1) - 1 are those that core rank c stands for; c may be `core`.
  int first_of(int core_rank) const { return core_rank < rest ? 2 * core_rank : core_rank + rest; }
};
Fold fold_of(int size);

}  // namespace roda::ranks
