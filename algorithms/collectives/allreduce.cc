#include <utility>

#include "algorithms/collectives/ranks.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule {
namespace {

// Chunk c travels the circle twice: from rank c it gathers everybody's contribution and is complete at rank c - 1, from
// there it goes to everybody.
void ring_allreduce(Schedule& s, int rank, int size) {
  s.chunks = size;
  const int next = ranks::next(rank, size);
  const int previous = ranks::previous(rank, size);
  for (int round = 0; round < size - 1; ++round) {
    add(s, step::send(next, output(ranks::wrap(rank - round, size))),
        step::recv_reduce(previous, output(ranks::wrap(rank - round - 1, size))));
  }
  for (int round = 0; round < size - 1; ++round) {
    add(s, step::send(next, output(ranks::wrap(rank + 1 - round, size))),
        step::recv(previous, output(ranks::wrap(rank - round, size))));
  }
}

// What ranks do that are no power of two: one of a pair hands its data to the other, which is in the core, and gets the
// result back. `core(core_rank)` writes what the core does.
void fold_into(Schedule& s, const ranks::Fold& fold, Range all, auto&& core) {
  const int partner = fold.partner(s.rank);
  if (fold.core_rank(s.rank) < 0) return add(s, step::send(partner, all), step::recv(partner, all));
  if (partner >= 0) add(s, step::recv_reduce(partner, all));
  core(fold.core_rank(s.rank));
  if (partner >= 0) add(s, step::send(partner, all));
}

// Exchanges the whole vector along each dimension of the hypercube. The sum goes back and forth between Output and
// Scratch, because what is being sent must stay as it is until the partner has it.
void recursive_doubling_allreduce(Schedule& s, int rank, int size) {
  const ranks::Fold fold = ranks::fold_of(size);
  s.scratch_chunks = fold.rounds > 0 && fold.core_rank(rank) >= 0 ? 1 : 0;
  fold_into(s, fold, output(0), [&](int core_rank) {
    Range current = output(0), other = scratch(0);
    for (int round = 0; round < fold.rounds; ++round) {
      const int partner = fold.rank_of(core_rank ^ (1 << round));
      add(s, step::send(partner, current), step::recv_reduce(partner, other, current));
      std::swap(current, other);
    }
    if (current != output(0)) add(s, step::copy(output(0), current));
  });
}

// Recursive halving leaves core rank c with chunk c complete; the same exchanges backwards give everybody all chunks.
void rabenseifner_allreduce(Schedule& s, int, int size) {
  const ranks::Fold fold = ranks::fold_of(size);
  s.chunks = fold.core;
  fold_into(s, fold, output(0, fold.core), [&](int core_rank) {
    for (int half = fold.core / 2; half > 0; half /= 2) {
      const int partner = fold.rank_of(core_rank ^ half), keep = core_rank & ~(half - 1);
      add(s, step::send(partner, output(keep ^ half, half)), step::recv_reduce(partner, output(keep, half)));
    }
    for (int half = 1; half < fold.core; half *= 2) {
      const int partner = fold.rank_of(core_rank ^ half), have = core_rank & ~(half - 1);
      add(s, step::send(partner, output(have, half)), step::recv(partner, output(have ^ half, half)));
    }
  });
}

// The smallest subtree is ready first; on the way down the largest is served first.
void binomial_allreduce(Schedule& s, int rank, int size) {
  const int parent = ranks::binomial_parent(rank);
  const std::vector<int> children = ranks::binomial_children(rank, size);
  for (auto child = children.rbegin(); child != children.rend(); ++child) add(s, step::recv_reduce(*child, output(0)));
  if (parent >= 0) add(s, step::send(parent, output(0)), step::recv(parent, output(0)));
  for (const int child : children) add(s, step::send(child, output(0)));
}

// Lane t reduces chunk t to the root of tree t and broadcasts it from there.
void double_binary_tree_allreduce(Schedule& s, int rank, int size) {
  s.chunks = 2;
  s.lanes.resize(2);
  for (int tree = 0; tree < 2; ++tree) {
    std::vector<Step>& steps = s.lanes[static_cast<std::size_t>(tree)].steps;
    const ranks::TreeNode node = ranks::double_tree_node(tree, rank, size);
    for (const int child : node.children) steps.push_back(step::recv_reduce(child, output(tree)));
    if (node.parent >= 0) {
      steps.push_back(step::send(node.parent, output(tree)));
      steps.push_back(step::recv(node.parent, output(tree)));
    }
    for (const int child : node.children) steps.push_back(step::send(child, output(tree)));
  }
}

// Every rank collects all contributions to its chunk and sums them up in rank order, in one pass; then everybody gets
// everybody's chunk. As many bytes as a ring, and 2(P-1) messages that wait for one another only once. The sum begins
// with rank 0's contribution and takes its place: rank 0's is there already, any other's own has to be moved aside.
void ordered_allreduce(Schedule& s, int rank, int size) {
  s.chunks = size;
  if (size == 1) return;
  s.scratch_chunks = size;
  s.scratch_is_own = true;
  const auto ahead = [&](int distance) { return ranks::wrap(rank + distance, size); };
  for (int distance = 1; distance < size; ++distance) add(s, step::send(ahead(distance), output(ahead(distance))));
  if (rank > 0) add(s, step::copy(scratch(rank), output(rank)));
  for (int distance = 1; distance < size; ++distance) add(s, step::recv(ahead(-distance), scratch(ahead(-distance))));
  if (rank > 0) add(s, step::copy(output(rank), scratch(0)));
  for (int peer = 1; peer < size; ++peer) add(s, step::reduce(output(rank), scratch(peer)));
  for (int distance = 1; distance < size; ++distance) add(s, step::send(ahead(distance), output(rank)));
  for (int distance = 1; distance < size; ++distance) add(s, step::recv(ahead(-distance), output(ahead(-distance))));
}

// Announces this rank's chunk and reads the others as they are announced. What is read, or was before it, is
// overwritten by nobody until all are through.
void gather_chunks(Schedule& s) {
  add(s, step::signal(kAllPeers));
  add_reads_of_all(s, [](int peer) { return step::get(peer, output(peer), output(peer)); });
}

// Rank r completes chunk r alone, so all ranks end with the same bits. Everybody starts at another peer, so that no
// memory is read by all at once. A chunk of another rank's is overwritten only when that rank has announced that it is
// complete: then it has also been read.
void direct_allreduce(Schedule& s, int rank, int size) {
  s.chunks = size;
  if (size == 1) return;
  add_handshake(s);
  for (int distance = 1; distance < size; ++distance) {
    add(s, step::get_reduce(ranks::wrap(rank + distance, size), output(rank), output(rank)));
  }
  gather_chunks(s);
}

// Everybody reduces everything in rank order, so all ranks end with the same bits. One handshake, and nobody waits for
// the others' reads. Nothing stands between the reads: they can be done in one pass.
void oneshot_allreduce(Schedule& s, int, int size) {
  s.in_place = false;
  s.reads_linger = size > 1;
  add_handshake(s);
  add_ordered_sum(s, output(0), input(0));
}

// Rank r completes chunk r, taking the contributions in rank order: the bits do not depend on where a chunk begins.
// Output chunks are read once they are announced, and the end waits until all of them were: the reads of Input lie
// before that, too.
void twoshot_allreduce(Schedule& s, int rank, int size) {
  s.chunks = size;
  s.in_place = false;
  add_handshake(s);
  add_ordered_sum(s, output(rank), input(rank));
  if (size > 1) gather_chunks(s);
}

}  // namespace

std::vector<Algorithm> allreduce_algorithms() {
  return list_of(
      Collective::kAllreduce,
      {{"binomial",
        "reduces to rank 0 and broadcasts along a binomial tree; fewest messages, 2(P-1) (Thakur et al. 2005)",
        kNeedsMessages, binomial_allreduce},
       {"direct",
        "in place: each rank reduces its chunk out of all peers' memory, then reads the others (MSCCL++, 2025)",
        kOneSided, direct_allreduce},
       {"double_binary_tree",
        "each half up and down one of two complementary trees; 2 log2(P) rounds (Sanders, Speck & Traeff 2009)",
        kNeedsMessages, double_binary_tree_allreduce},
       {"oneshot",
        "out of place: each rank reduces all of everybody's memory; one handshake, small sizes (MSCCL++, 2025)",
        kOneSided, oneshot_allreduce, true},
       {"ordered", "each rank sums up its chunk in rank order, whatever the transport; same bits at any size and place",
        kNeedsMessages, ordered_allreduce, true},
       {"rabenseifner", "recursive halving, then doubling; least bytes in 2 log2(P) rounds (Rabenseifner 2004)",
        kNeedsMessages, rabenseifner_allreduce},
       {"recursive_doubling", "whole vector with log2(P) partners; fewest rounds, for small sizes (Thakur et al. 2005)",
        kNeedsMessages, recursive_doubling_allreduce},
       {"ring", "reduce-scatter and allgather along a ring; least bytes, 2(P-1) rounds (Patarasuk & Yuan 2009)",
        kNeedsMessages, ring_allreduce},
       {"twoshot",
        "out of place: like direct, every element summed in rank order; same bits at any size (MSCCL++, 2025)",
        kOneSided, twoshot_allreduce, true}});
}

}  // namespace roda::schedule
