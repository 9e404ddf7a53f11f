#include "algorithms/ranks/fold.h"

namespace roda::ranks {

int Fold::core_rank(int rank) const {
  if (rank >= 2 * rest) return rank - rest;
  return rank % 2 == 1 ? rank / 2 : -1;
}

int Fold::rank_of(int core_rank) const { return core_rank < rest ? 2 * core_rank + 1 : core_rank + rest; }

int Fold::partner(int rank) const { return rank < 2 * rest ? rank ^ 1 : -1; }

int Fold::first_of(int core_rank) const { return core_rank < rest ? 2 * core_rank : core_rank + rest; }

Fold fold_of(int size) {
  Fold fold;
  while (fold.core <= size / 2) {
    fold.core *= 2;
    ++fold.rounds;
  }
  fold.rest = size - fold.core;
  return fold;
}

}  // namespace roda::ranks
