#include <algorithm>

#include "algorithms/ranks/ring.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

// `count` chunks from `first` on, around the end: one range or two.
std::vector<Range> around(int first, int count, int size) {
  const int straight = std::min(count, size - first);
  std::vector<Range> ranges = {output(first, straight)};
  if (straight < count) ranges.push_back(output(0, count - straight));
  return ranges;
}

// In each round this rank has the chunks rank .. rank + have - 1 and gets as many again from the rank `have` ahead.
// Chunks lie where they belong from the start, so they may differ in size.
Schedule make(int rank, int size, int /*root*/) {
  Schedule schedule = begin("bruck", Collective::kAllgather, rank, size, size);
  std::vector<Step>& steps = schedule.lanes[0].steps;
  for (int have = 1; have < size; have *= 2) {
    const int count = std::min(have, size - have);
    const int to = ranks::wrap(rank - have, size);
    const int from = ranks::wrap(rank + have, size);
    for (const Range& range : around(rank, count, size)) steps.push_back(step::send(to, range));
    for (const Range& range : around(from, count, size)) steps.push_back(step::recv(from, range));
  }
  return schedule;
}

}  // namespace

extern const Algorithm exchange_bruck = {
    "bruck",
    "doubles what every rank has; log2(P) rounds for any P and any chunk sizes (Bruck et al. 1997)",
    Collective::kAllgather,
    kNeedsMessages,
    any_size,
    make};

}  // namespace roda::schedule::registered
