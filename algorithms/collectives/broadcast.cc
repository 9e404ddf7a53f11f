#include "algorithms/collectives/ranks.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule {
namespace {

// Nodes of the trees are ranks counted from the root.

void binomial_broadcast(Schedule& s, int rank, int size) {
  const int node = ranks::wrap(rank - s.root, size);
  const auto rank_of = [&](int other) { return ranks::wrap(other + s.root, size); };
  if (node != 0) add(s, step::recv(rank_of(ranks::binomial_parent(node)), output(0)));
  for (const int child : ranks::binomial_children(node, size)) add(s, step::send(rank_of(child), output(0)));
}

// The trees span all ranks but the root, which feeds chunk t to the top of tree t.
void double_binary_tree_broadcast(Schedule& s, int rank, int size) {
  s.chunks = 2;
  s.lanes.resize(2);
  if (size == 1) return;
  const int node = ranks::wrap(rank - s.root, size) - 1;
  const auto rank_of = [&](int other) { return ranks::wrap(other + 1 + s.root, size); };
  for (int tree = 0; tree < 2; ++tree) {
    std::vector<Step>& steps = s.lanes[static_cast<std::size_t>(tree)].steps;
    if (rank == s.root) {
      steps.push_back(step::send(rank_of(ranks::double_tree_root(tree, size - 1)), output(tree)));
      continue;
    }
    const ranks::TreeNode place = ranks::double_tree_node(tree, node, size - 1);
    steps.push_back(step::recv(rank_of(place.parent), output(tree)));  // parent -1 is the root
    for (const int child : place.children) steps.push_back(step::send(rank_of(child), output(tree)));
  }
}

// Binomial scatter of the chunks, then a ring that leaves out what its receiver already has: the chunks that the
// scatter leaves at a node are those of its subtree.
void scatter_allgather_broadcast(Schedule& s, int rank, int size) {
  s.chunks = size;
  const int node = ranks::wrap(rank - s.root, size);
  const auto rank_of = [&](int other) { return ranks::wrap(other + s.root, size); };
  const auto subtree = [=](int top) { return output(top, ranks::binomial_span(top, size)); };
  const auto has = [=](int top, int chunk) { return chunk >= top && chunk < top + ranks::binomial_span(top, size); };
  if (node != 0) add(s, step::recv(rank_of(ranks::binomial_parent(node)), subtree(node)));
  for (const int child : ranks::binomial_children(node, size)) add(s, step::send(rank_of(child), subtree(child)));
  const int next = ranks::next(node, size);
  for (int round = 0; round < size - 1; ++round) {
    const int sent = ranks::wrap(node - round, size);
    const int received = ranks::previous(sent, size);
    if (!has(next, sent)) add(s, step::send(rank_of(next), output(sent)));
    if (!has(node, received)) add(s, step::recv(rank_of(ranks::previous(node, size)), output(received)));
  }
}

void direct_broadcast(Schedule& s, int rank, int) {
  if (rank == s.root) return add_handshake(s);
  add(s, step::wait(s.root), step::get(s.root, output(0), output(0)), step::signal(s.root));
}

}  // namespace

std::vector<Algorithm> broadcast_algorithms() {
  return list_of(
      Collective::kBroadcast,
      {{"binomial", "whole vector down a binomial tree; log2(P) rounds, for small sizes (Thakur et al. 2005)",
        kNeedsMessages, binomial_broadcast},
       {"direct", "everybody reads the root's memory and tells it so; one round (MSCCL++, 2025)", kOneSided,
        direct_broadcast},
       {"double_binary_tree",
        "each half down one of two complementary trees; log2(P) rounds at full bandwidth (Sanders, Speck & Traeff "
        "2009)",
        kNeedsMessages, double_binary_tree_broadcast},
       {"scatter_allgather", "scatters down a binomial tree, then a ring; few bytes per rank (van de Geijn, 1994)",
        kNeedsMessages, scatter_allgather_broadcast}});
}

}  // namespace roda::schedule
