#include "algorithms/collectives/ranks.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule {
namespace {

// Chunk c starts at rank c + 1 and is complete at rank c. What is under way lies in Scratch, as Input is read-only.
void ring_reduce_scatter(Schedule& s, int rank, int size) {
  s.chunks = size;
  if (size == 1) return add(s, step::copy(output(0), input(0)));
  s.scratch_chunks = size;
  const int next = ranks::next(rank, size);
  const int previous = ranks::previous(rank, size);
  Range travelling = input(previous);
  for (int round = 1; round < size; ++round) {
    const int chunk = ranks::wrap(rank - round - 1, size);
    const Range partial = round == size - 1 ? output(0) : scratch(chunk);
    add(s, step::send(next, travelling), step::recv_reduce(previous, partial, input(chunk)));
    travelling = partial;
  }
}

// The core halves what each rank is responsible for until only its own chunks (two, if another rank is folded into it)
// are left. The first exchange reads Input unless the folding has filled Scratch already.
void recursive_halving_reduce_scatter(Schedule& s, int rank, int size) {
  s.chunks = size;
  if (size == 1) return add(s, step::copy(output(0), input(0)));
  const ranks::Fold fold = ranks::fold_of(size);
  const int core_rank = fold.core_rank(rank);
  const int folded = fold.partner(rank);
  if (core_rank < 0) return add(s, step::send(folded, input(0, size)), step::recv(folded, output(0)));
  s.scratch_chunks = size;
  if (folded >= 0) add(s, step::recv_reduce(folded, scratch(0, size), input(0, size)));
  // The chunks of the ranks that core ranks first .. first + count - 1 stand for.
  const auto chunks_of = [&fold](Space space, int first, int count) {
    const int begin = fold.first_of(first);
    return Range{space, begin, fold.first_of(first + count) - begin};
  };
  Space current = folded >= 0 ? Space::kScratch : Space::kInput;
  for (int half = fold.core / 2; half > 0; half /= 2) {
    const int partner = fold.rank_of(core_rank ^ half);
    const int keep = core_rank & ~(half - 1);
    add(s, step::send(partner, chunks_of(current, keep ^ half, half)),
        step::recv_reduce(partner, chunks_of(Space::kScratch, keep, half), chunks_of(current, keep, half)));
    current = Space::kScratch;
  }
  if (folded >= 0) add(s, step::send(folded, scratch(folded)));
  add(s, step::copy(output(0), scratch(rank)));
}

void pairwise_reduce_scatter(Schedule& s, int rank, int size) {
  s.chunks = size;
  if (size == 1) add(s, step::copy(output(0), input(0)));
  for (int distance = 1; distance < size; ++distance) {
    const int to = ranks::wrap(rank + distance, size);
    const int from = ranks::wrap(rank - distance, size);
    add(s, step::send(to, input(to)), step::recv_reduce(from, output(0), distance == 1 ? input(rank) : output(0)));
  }
}

// The first half of the ordered allreduce.
void ordered_reduce_scatter(Schedule& s, int rank, int size) {
  s.chunks = size;
  s.scratch_chunks = size == 1 ? 0 : size;
  s.scratch_is_own = true;
  const auto ahead = [&](int distance) { return ranks::wrap(rank + distance, size); };
  for (int distance = 1; distance < size; ++distance) add(s, step::send(ahead(distance), input(ahead(distance))));
  for (int distance = 1; distance < size; ++distance) add(s, step::recv(ahead(-distance), scratch(ahead(-distance))));
  for (int peer = 0; peer < size; ++peer) {
    const Range part = peer == rank ? input(rank) : scratch(peer);
    add(s, peer == 0 ? step::copy(output(0), part) : step::reduce(output(0), part));
  }
}

void direct_reduce_scatter(Schedule& s, int rank, int size) {
  s.chunks = size;
  add_handshake(s);
  add(s, step::copy(output(0), input(rank)));
  for (int distance = 1; distance < size; ++distance) {
    add(s, step::get_reduce(ranks::wrap(rank + distance, size), output(0), input(rank)));
  }
  add_handshake(s);
}

// As direct, but in rank order: the bits do not depend on whose chunk an element is in.
void direct_ordered_reduce_scatter(Schedule& s, int rank, int size) {
  s.chunks = size;
  add_handshake(s);
  add_ordered_sum(s, output(0), input(rank));
  add_handshake(s);
}

}  // namespace

std::vector<Algorithm> reduce_scatter_algorithms() {
  return list_of(
      Collective::kReduceScatter,
      {{"direct", "each rank reduces its chunk out of all peers' memory; two handshakes (MSCCL++, 2025)", kOneSided,
        direct_reduce_scatter},
       {"direct_ordered",
        "like direct, every element summed in rank order; same bits at any size and place (MSCCL++, 2025)", kOneSided,
        direct_ordered_reduce_scatter, true},
       {"ordered", "each rank sums up its chunk in rank order, whatever the transport; same bits at any size and place",
        kNeedsMessages, ordered_reduce_scatter, true},
       {"pairwise", "every rank sends each chunk to its owner; no scratch memory, P-1 rounds (Thakur et al. 2005)",
        kNeedsMessages, pairwise_reduce_scatter},
       {"recursive_halving",
        "halves the vector with log2(P) partners; least bytes in fewest rounds (Thakur et al. 2005)", kNeedsMessages,
        recursive_halving_reduce_scatter},
       {"ring",
        "every chunk gathers contributions around a ring; talks to neighbours only, P-1 rounds (Thakur et al. 2005)",
        kNeedsMessages, ring_reduce_scatter}});
}

}  // namespace roda::schedule
