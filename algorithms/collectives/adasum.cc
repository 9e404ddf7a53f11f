#include <bit>
#include <utility>

#include "algorithms/collectives/ranks.h"
#include "algorithms/schedule/build.h"

namespace roda::schedule {
namespace {

// `distance` ranks in a row have the parts of one vector: with as many others those of both, whose products they sum
// up. The sums go back and forth, because what is being sent must stay as it is; they end in the first chunk.
void add_products(Schedule& s, int distance, Range first, Range second) {
  int sums = (std::countr_zero(static_cast<unsigned>(distance)) + 1) % 2;
  add(s, step::dots(products(sums), first, second));
  for (int near = 1; near <= distance; near *= 2) {
    add(s, step::send(s.rank ^ near, products(sums)),
        step::recv_reduce(s.rank ^ near, products(1 - sums), products(sums)));
    sums = 1 - sums;
  }
}

void vector_halving(Schedule& s, int rank, int size) {
  struct Level {
    int peer;
    Range kept, given;
  };
  const int shares = s.root > 1 ? s.root : 1;
  const int vectors = size / shares;
  s.chunks = vectors;
  s.scratch_chunks = vectors > 1 ? vectors : 0;
  s.product_chunks = vectors > 1 ? 2 : 0;
  std::vector<Level> levels;
  Range held = output(0, vectors);
  for (int distance = shares; distance < size; distance *= 2) {
    const int half = held.count / 2;
    Level level{rank ^ distance, output(held.first, half), output(held.first + half, half)};
    const bool is_first = (rank & distance) == 0;
    if (!is_first) std::swap(level.kept, level.given);
    Range first = level.kept, second = scratch(level.kept.first, half);
    add(s, step::send(level.peer, level.given), step::recv(level.peer, second));
    if (!is_first) std::swap(first, second);
    add_products(s, distance, first, second);
    add(s, step::weigh(level.kept, first, second));
    held = level.kept;
    levels.push_back(level);
  }
  for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
    add(s, step::send(level->peer, level->kept), step::recv(level->peer, level->given));
  }
}

}  // namespace

std::vector<Algorithm> adasum_algorithms() {
  return list_of(
      Collective::kAdasum,
      {{"vector_halving",
        "halves with partners twice as far each round, and back; P a power of two (Maleki et al. 2021, algorithm 1)",
        kNeedsMessages, vector_halving, false, ranks::is_power_of_two}});
}

}  // namespace roda::schedule
