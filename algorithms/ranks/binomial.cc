#include "algorithms/ranks/binomial.h"

#include <algorithm>

namespace roda::ranks {
namespace {

// Nodes below this distance from `node` are its descendants.
int reach(int node, int size) {
  if (node != 0) return node & -node;
  int bit = 1;
  while (bit < size) bit *= 2;
  return bit;
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

}  // namespace roda::ranks
