// The binomial tree over 0..size-1 with root 0: the parent of v is v without its lowest set bit.
#pragma once

#include <vector>

namespace roda::ranks {

// -1 for the root.
int binomial_parent(int node);

// The children of `node`, the one with the largest subtree first.
std::vector<int> binomial_children(int node, int size);

// The subtree of `node` is node .. node + binomial_span(node, size) - 1.
int binomial_span(int node, int size);

}  // namespace roda::ranks
