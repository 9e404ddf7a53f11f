#include <algorithm>

#include "algorithms/collectives/ranks.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule {
namespace {

void ring_allgather(Schedule& s, int rank, int size) {
  s.chunks = size;
  for (int round = 0; round < size - 1; ++round) {
    add(s, step::send(ranks::next(rank, size), output(ranks::wrap(rank - round, size))),
        step::recv(ranks::previous(rank, size), output(ranks::wrap(rank - round - 1, size))));
  }
}

// `count` chunks from `first` on, around the end: one range or two.
std::vector<Range> around(int first, int count, int size) {
  const int straight = std::min(count, size - first);
  std::vector<Range> ranges = {output(first, straight)};
  if (straight < count) ranges.push_back(output(0, count - straight));
  return ranges;
}

// In each round this rank has the chunks rank .. rank + have - 1 and gets as many again from the rank `have` ahead.
// Chunks lie where they belong from the start, so they may differ in size.
void bruck_allgather(Schedule& s, int rank, int size) {
  s.chunks = size;
  for (int have = 1; have < size; have *= 2) {
    const int count = std::min(have, size - have);
    const int to = ranks::wrap(rank - have, size);
    const int from = ranks::wrap(rank + have, size);
    for (const Range& range : around(rank, count, size)) add(s, step::send(to, range));
    for (const Range& range : around(from, count, size)) add(s, step::recv(from, range));
  }
}

void direct_allgather(Schedule& s, int, int size) {
  s.chunks = size;
  if (size == 1) return;
  add(s, step::signal(kAllPeers));
  add_reads_of_all(s, [](int peer) { return step::get(peer, output(peer), output(peer)); });
}

}  // namespace

std::vector<Algorithm> allgather_algorithms() {
  return list_of(
      Collective::kAllgather,
      {{"bruck", "doubles what every rank has; log2(P) rounds for any P and any chunk sizes (Bruck et al. 1997)",
        kNeedsMessages, bruck_allgather},
       {"direct", "each rank reads every peer's chunk; two handshakes (MSCCL++, 2025)", kOneSided, direct_allgather},
       {"ring", "every chunk goes once around a ring; talks to neighbours only, P-1 rounds (Thakur et al. 2005)",
        kNeedsMessages, ring_allgather}});
}

}  // namespace roda::schedule
