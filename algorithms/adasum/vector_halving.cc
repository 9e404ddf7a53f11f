#include <algorithm>
#include <bit>
#include <utility>

#include "algorithms/ranks/fold.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule::registered {
namespace {

// `distance` ranks in a row have the parts of one vector: with as many others those of both, whose products they sum
// up. The sums go back and forth, because what is being sent must stay as it is; they end in the first chunk.
void append_products(std::vector<Step>& steps, int rank, int distance, Range first, Range second) {
  int sums = (std::countr_zero(static_cast<unsigned>(distance)) + 1) % 2;
  steps.push_back(step::dots(products(sums), first, second));
  for (int near = 1; near <= distance; near *= 2) {
    steps.push_back(step::send(rank ^ near, products(sums)));
    steps.push_back(step::recv_reduce(rank ^ near, products(1 - sums), products(sums)));
    sums = 1 - sums;
  }
}

struct Level {
  int peer;
  Range kept, given;
};

Schedule make(int rank, int size, int root) {
  const int shares = std::max(root, 1);
  const int vectors = size / shares;
  Schedule schedule = begin("vector_halving", Collective::kAdasum, rank, size, vectors);
  schedule.root = root;
  schedule.scratch_chunks = vectors > 1 ? vectors : 0;
  schedule.product_chunks = vectors > 1 ? 2 : 0;
  std::vector<Step>& steps = schedule.lanes[0].steps;
  std::vector<Level> levels;
  Range held = output(0, vectors);
  for (int distance = shares; distance < size; distance *= 2) {
    const int half = held.count / 2;
    Level level{rank ^ distance, output(held.first, half), output(held.first + half, half)};
    const bool is_first = (rank & distance) == 0;
    if (!is_first) std::swap(level.kept, level.given);
    Range first = level.kept, second = scratch(level.kept.first, half);
    steps.push_back(step::send(level.peer, level.given));
    steps.push_back(step::recv(level.peer, second));
    if (!is_first) std::swap(first, second);
    append_products(steps, rank, distance, first, second);
    steps.push_back(step::weigh(level.kept, first, second));
    held = level.kept;
    levels.push_back(level);
  }
  for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
    steps.push_back(step::send(level->peer, level->kept));
    steps.push_back(step::recv(level->peer, level->given));
  }
  return schedule;
}

}  // namespace

extern const Algorithm adasum_vector_halving = {
    "vector_halving",
    "halves with partners twice as far each round, and back; P a power of two (Maleki et al. 2021, algorithm 1)",
    Collective::kAdasum,
    kNeedsMessages,
    ranks::is_power_of_two,
    make};

}  // namespace roda::schedule::registered
