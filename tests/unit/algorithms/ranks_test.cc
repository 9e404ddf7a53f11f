// Rank arithmetic, exhaustively for every size up to 64.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "algorithms/collectives/ranks.h"

namespace roda::ranks {
namespace {

constexpr int kMaxSize = 64;

int ceil_log2(int value) {
  int log = 0;
  while ((1 << log) < value) ++log;
  return log;
}

TEST(Ring, NeighboursAreInverse) {
  for (int size = 1; size <= kMaxSize; ++size) {
    for (int rank = 0; rank < size; ++rank) {
      EXPECT_EQ(previous(next(rank, size), size), rank);
      EXPECT_EQ(wrap(rank - size, size), rank);
    }
  }
}

TEST(Fold, CoreIsTheLargestPowerOfTwo) {
  for (int size = 1; size <= kMaxSize; ++size) {
    const Fold fold = fold_of(size);
    EXPECT_TRUE(is_power_of_two(fold.core));
    EXPECT_EQ(fold.core, 1 << fold.rounds);
    EXPECT_LE(fold.core, size);
    EXPECT_GT(2 * fold.core, size);
    EXPECT_EQ(fold.core + fold.rest, size);
  }
}

TEST(Fold, EveryRankIsInTheCoreOrPairedWithOneThatIs) {
  for (int size = 1; size <= kMaxSize; ++size) {
    const Fold fold = fold_of(size);
    std::set<int> core;
    for (int rank = 0; rank < size; ++rank) {
      const int partner = fold.partner(rank);
      if (partner >= 0) {
        EXPECT_EQ(fold.partner(partner), rank);
        EXPECT_NE(fold.core_rank(rank) < 0, fold.core_rank(partner) < 0);
      }
      if (fold.core_rank(rank) < 0) continue;
      EXPECT_EQ(fold.rank_of(fold.core_rank(rank)), rank);
      core.insert(fold.core_rank(rank));
    }
    EXPECT_EQ(static_cast<int>(core.size()), fold.core);
    EXPECT_EQ(*core.begin(), 0);
    EXPECT_EQ(*core.rbegin(), fold.core - 1);
  }
}

TEST(Fold, CoreRanksStandForConsecutiveRanks) {
  for (int size = 1; size <= kMaxSize; ++size) {
    const Fold fold = fold_of(size);
    EXPECT_EQ(fold.first_of(0), 0);
    EXPECT_EQ(fold.first_of(fold.core), size);
    for (int core = 0; core < fold.core; ++core) {
      for (int rank = fold.first_of(core); rank < fold.first_of(core + 1); ++rank) {
        EXPECT_TRUE(rank == fold.rank_of(core) || fold.partner(rank) == fold.rank_of(core));
      }
    }
  }
}

TEST(IsPowerOfTwo, OfSmallNumbers) {
  EXPECT_FALSE(is_power_of_two(-4));
  EXPECT_FALSE(is_power_of_two(0));
  EXPECT_TRUE(is_power_of_two(1));
  EXPECT_TRUE(is_power_of_two(64));
  EXPECT_FALSE(is_power_of_two(48));
}

TEST(Binomial, ParentsAndChildrenAgree) {
  for (int size = 1; size <= kMaxSize; ++size) {
    int edges = 0;
    for (int node = 0; node < size; ++node) {
      for (const int child : binomial_children(node, size)) {
        EXPECT_EQ(binomial_parent(child), node);
        ++edges;
      }
    }
    EXPECT_EQ(edges, size - 1);
    EXPECT_EQ(binomial_parent(0), -1);
  }
}

TEST(Binomial, SubtreesAreConsecutiveAndLargestFirst) {
  for (int size = 1; size <= kMaxSize; ++size) {
    EXPECT_EQ(binomial_span(0, size), size);
    for (int node = 0; node < size; ++node) {
      const std::vector<int> children = binomial_children(node, size);
      EXPECT_TRUE(std::is_sorted(children.rbegin(), children.rend()));
      EXPECT_LE(static_cast<int>(children.size()), ceil_log2(size));
      int end = node + binomial_span(node, size);
      for (const int child : children) {
        EXPECT_EQ(child + binomial_span(child, size), end);
        end = child;
      }
      EXPECT_EQ(end, node + 1);
    }
  }
}

int depth(int tree, int node, int size) {
  int depth = 1;
  for (TreeNode at = double_tree_node(tree, node, size); at.parent >= 0; ++depth) {
    EXPECT_LE(depth, size) << "a circle";
    if (depth > size) break;
    at = double_tree_node(tree, at.parent, size);
  }
  return depth;
}

TEST(DoubleTree, BothAreBinaryTreesOfLogarithmicHeight) {
  for (int size = 1; size <= kMaxSize; ++size) {
    for (int tree = 0; tree < 2; ++tree) {
      EXPECT_EQ(double_tree_node(tree, double_tree_root(tree, size), size).parent, -1);
      int roots = 0;
      for (int node = 0; node < size; ++node) {
        const TreeNode place = double_tree_node(tree, node, size);
        roots += place.parent < 0 ? 1 : 0;
        EXPECT_LE(place.children.size(), 2u);
        for (const int child : place.children) EXPECT_EQ(double_tree_node(tree, child, size).parent, node);
        EXPECT_LE(depth(tree, node, size), ceil_log2(size + 1));
      }
      EXPECT_EQ(roots, 1);
    }
  }
}

TEST(DoubleTree, NobodyHasChildrenInBoth) {
  for (int size = 1; size <= kMaxSize; ++size) {
    for (int node = 0; node < size; ++node) {
      const bool inner_in_first = !double_tree_node(0, node, size).children.empty();
      const bool inner_in_second = !double_tree_node(1, node, size).children.empty();
      EXPECT_FALSE(inner_in_first && inner_in_second) << "node " << node << " of " << size;
    }
  }
}

}  // namespace
}  // namespace roda::ranks
