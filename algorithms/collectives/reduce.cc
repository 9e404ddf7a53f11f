#include "algorithms/collectives/ranks.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule {
namespace {

// Who has children sums up where its own data need not stay: the root in Output, the others in Scratch. The smallest
// subtree is ready first.
void binomial_reduce(Schedule& s, int rank, int size) {
  if (size == 1) return add(s, step::copy(output(0), input(0)));
  const int node = ranks::wrap(rank - s.root, size);
  const auto rank_of = [&](int other) { return ranks::wrap(other + s.root, size); };
  const std::vector<int> children = ranks::binomial_children(node, size);
  const Range sum = rank == s.root ? output(0) : scratch(0);
  s.scratch_chunks = 1;
  Range so_far = input(0);
  for (auto child = children.rbegin(); child != children.rend(); ++child) {
    add(s, step::recv_reduce(rank_of(*child), sum, so_far));
    so_far = sum;
  }
  if (rank != s.root) add(s, step::send(rank_of(ranks::binomial_parent(node)), so_far));
}

// The broadcast the other way: the trees span all ranks but the root, which takes chunk t from the top of tree t.
void double_binary_tree_reduce(Schedule& s, int rank, int size) {
  s.chunks = 2;
  s.lanes.resize(2);
  s.scratch_chunks = size == 1 || rank == s.root ? 0 : 2;
  const int node = ranks::wrap(rank - s.root, size) - 1;
  const auto rank_of = [&](int other) { return ranks::wrap(other + 1 + s.root, size); };
  for (int tree = 0; tree < 2; ++tree) {
    std::vector<Step>& steps = s.lanes[static_cast<std::size_t>(tree)].steps;
    if (size == 1) {
      steps.push_back(step::copy(output(tree), input(tree)));
    } else if (rank == s.root) {
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
}

// The root has all contributions side by side before it writes its Output, which may be its Input.
void ordered_reduce(Schedule& s, int rank, int size) {
  if (rank != s.root) return add(s, step::send(s.root, input(0)));
  const bool moves_own = s.root != 0;
  s.scratch_chunks = size == 1 ? 0 : size;
  for (int from = 0; from < size; ++from) {
    if (from != s.root) add(s, step::recv(from, scratch(from)));
  }
  if (moves_own) add(s, step::copy(scratch(s.root), input(0)));
  for (int from = 0; from < size; ++from) {
    const Range part = from == s.root && !moves_own ? input(0) : scratch(from);
    add(s, from == 0 ? step::copy(output(0), part) : step::reduce(output(0), part));
  }
}

void direct_reduce(Schedule& s, int rank, int size) {
  if (rank != s.root) return add(s, step::signal(s.root), step::wait(s.root));
  add(s, step::copy(output(0), input(0)));
  if (size == 1) return;
  for (int distance = 1; distance < size; ++distance) {
    const int peer = ranks::wrap(rank + distance, size);
    add(s, step::wait(peer), step::get_reduce(peer, output(0), input(0)));
  }
  add(s, step::signal(kAllPeers));
}

}  // namespace

std::vector<Algorithm> reduce_algorithms() {
  return list_of(
      Collective::kReduce,
      {{"binomial", "up a binomial tree to the root; fewest messages, log2(P) rounds (Thakur et al. 2005)",
        kNeedsMessages, binomial_reduce},
       {"direct", "the root reduces out of all peers' memory and tells them so; one round (MSCCL++, 2025)", kOneSided,
        direct_reduce},
       {"double_binary_tree",
        "each half up one of two complementary trees; log2(P) rounds at full bandwidth (Sanders, Speck & Traeff 2009)",
        kNeedsMessages, double_binary_tree_reduce},
       {"ordered", "the root sums up in rank order, whatever the transport; same bits at any size and place",
        kNeedsMessages, ordered_reduce, true}});
}

}  // namespace roda::schedule
