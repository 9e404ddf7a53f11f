#include "algorithms/ranks/ring.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

// Every rank collects all contributions to its chunk and sums them up in rank order, in one pass; then everybody gets
// everybody's chunk. As many bytes as a ring, and 2(P-1) messages that wait for one another only once. The sum begins
// with rank 0's contribution and takes its place: rank 0's is there already, any other's own has to be moved aside.
Schedule make(int rank, int size, int /*root*/) {
  Schedule schedule = begin("ordered", Collective::kAllreduce, rank, size, size);
  if (size == 1) return schedule;
  schedule.scratch_chunks = size;
  schedule.scratch_is_own = true;
  std::vector<Step>& steps = schedule.lanes[0].steps;
  for (int distance = 1; distance < size; ++distance) {
    const int to = ranks::wrap(rank + distance, size);
    steps.push_back(step::send(to, output(to)));
  }
  if (rank > 0) steps.push_back(step::copy(scratch(rank), output(rank)));
  for (int distance = 1; distance < size; ++distance) {
    const int from = ranks::wrap(rank - distance, size);
    steps.push_back(step::recv(from, scratch(from)));
  }
  if (rank > 0) steps.push_back(step::copy(output(rank), scratch(0)));
  for (int peer = 1; peer < size; ++peer) steps.push_back(step::reduce(output(rank), scratch(peer)));
  for (int distance = 1; distance < size; ++distance) {
    steps.push_back(step::send(ranks::wrap(rank + distance, size), output(rank)));
  }
  for (int distance = 1; distance < size; ++distance) {
    const int from = ranks::wrap(rank - distance, size);
    steps.push_back(step::recv(from, output(from)));
  }
  return schedule;
}

}  // namespace

extern const Algorithm exchange_ordered_allreduce = {
    "ordered",
    "each rank sums up its chunk in rank order, whatever the transport; same bits at any size and place",
    Collective::kAllreduce,
    kNeedsMessages,
    any_size,
    make,
    true};

}  // namespace roda::schedule::registered
