#include "algorithms/collectives/ranks.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule {
namespace {

void pairwise_alltoall(Schedule& s, int rank, int size) {
  s.chunks = size;
  add(s, step::copy(output(rank), input(rank)));
  for (int distance = 1; distance < size; ++distance) {
    const int to = ranks::wrap(rank + distance, size);
    const int from = ranks::wrap(rank - distance, size);
    add(s, step::send(to, input(to)), step::recv(from, output(from)));
  }
}

void direct_alltoall(Schedule& s, int rank, int size) {
  s.chunks = size;
  if (size > 1) add(s, step::signal(kAllPeers));
  add(s, step::copy(output(rank), input(rank)));
  add_reads_of_all(s, [rank](int peer) { return step::get(peer, output(peer), input(rank)); });
}

}  // namespace

std::vector<Algorithm> alltoall_algorithms() {
  return list_of(
      Collective::kAlltoall,
      {{"direct", "each rank reads its chunk of every peer; two handshakes (MSCCL++, 2025)", kOneSided,
        direct_alltoall},
       {"pairwise", "in round d to the rank d ahead and from the rank d behind; P-1 rounds (Thakur et al. 2005)",
        kNeedsMessages, pairwise_alltoall}});
}

}  // namespace roda::schedule
