// Who exchanges what in Adasum: recursive vector halving with distance doubling.
//
// Maleki et al., "Scaling distributed training with adaptive summation" (MLSys 2021, arXiv:2006.02924), algorithm 1.
// Level k joins positions whose numbers differ in bit k. Both hold the same range; each keeps one half and gives the
// other away, so that 2^(k+1) positions together hold the halves of both vectors. What the levels took apart is put
// together again on the way back, in reverse.
//
// Pure; for every power of two.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace roda::adasum {

constexpr bool is_power_of_two(int n) { return n > 0 && (n & (n - 1)) == 0; }

struct Range {
  std::size_t first = 0;  // elements
  std::size_t count = 0;
};

struct Level {
  int peer = 0;        // position
  bool is_low = true;  // this position's vector is the first of the two
  Range keeps;
  Range gives;  // what the peer keeps
};

// The levels of `position` among `size` for vectors of `count` elements.
inline std::vector<Level> levels(int position, int size, std::size_t count) {
  std::vector<Level> result;
  Range held{0, count};
  for (int bit = 1; bit < size; bit *= 2) {
    Level level;
    level.peer = position ^ bit;
    level.is_low = (position & bit) == 0;
    const Range low{held.first, held.count / 2};
    const Range high{held.first + low.count, held.count - low.count};
    level.keeps = level.is_low ? low : high;
    level.gives = level.is_low ? high : low;
    held = level.keeps;
    result.push_back(level);
  }
  return result;
}

// Of two vectors by their products: w.first * a + w.second * b is their adaptive sum. Orthogonal vectors are added,
// parallel ones averaged. A vector that is all but zero leaves the other as it is.
struct Weights {
  double first = 1;
  double second = 1;
};

inline Weights weights(double dot, double first_squared, double second_squared) {
  const double least = std::sqrt(std::numeric_limits<double>::min());
  Weights w;
  if (!(first_squared < least)) w.first = 1 - dot / (2 * first_squared);
  if (!(second_squared < least)) w.second = 1 - dot / (2 * second_squared);
  return w;
}

}  // namespace roda::adasum
