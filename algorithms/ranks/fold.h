// Any number of ranks as a hypercube: the largest power of two of them form the core, the rest pair up with core ranks.
//
// With `rest` ranks too many, the first 2 * rest ranks form pairs (0,1) (2,3) ...: the even one is folded into the odd
// one, which is a core rank. Core ranks are numbered in the order of their ranks.
#pragma once

namespace roda::ranks {

constexpr bool is_power_of_two(int value) { return value > 0 && (value & (value - 1)) == 0; }

struct Fold {
  int core = 1;    // ranks of the hypercube
  int rest = 0;    // ranks folded away
  int rounds = 0;  // core == 1 << rounds

  // Number of the rank in the core, -1 when it is folded away.
  int core_rank(int rank) const;
  // The rank that has this number in the core.
  int rank_of(int core_rank) const;
  // The other rank of the pair, -1 when the rank is in none.
  int partner(int rank) const;

  // Ranks first_of(c) .. first_of(c + 1) - 1 are those that core rank c stands for; c may be `core`.
  int first_of(int core_rank) const;
};

Fold fold_of(int size);

}  // namespace roda::ranks
