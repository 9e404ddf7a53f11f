// What the ranks of tests on GPUs give, and its sum.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/multi/engine/rank.h"

namespace roda::test {

using Shape = std::vector<std::int64_t>;

inline float value_of(int rank, std::size_t i) { return static_cast<float>((rank + 1) * static_cast<int>(i % 7 + 1)); }

inline std::vector<float> mine(std::size_t n) {
  std::vector<float> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = value_of(rank(), i);
  return v;
}

// Several pieces of a composition, and little enough for eight ranks on a small machine.
inline std::size_t large() { return size() > 2 ? 2'500'000 : 6'000'000; }

// One assertion: one for each of millions of elements takes longer than all else here.
inline void expect_sum(const std::vector<float>& got, float factor = 1) {
  const float once = static_cast<float>(size() * (size() + 1) / 2) * factor;
  const float* const data = got.data();
  std::size_t right = 0;
  for (const std::size_t n = got.size(); right < n; ++right) {
    const float expected = once * static_cast<float>(right % 7 + 1);
    if (!(std::abs(data[right] - expected) <= 1e-6f * std::abs(expected))) break;
  }
  ASSERT_EQ(right, got.size()) << "the element there is " << got[right];
}

}  // namespace roda::test
