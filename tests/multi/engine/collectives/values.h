// Values that tell ranks and elements apart, and whose sums are exact.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/multi/engine/rank.h"

namespace roda::test {

using Shape = std::vector<std::int64_t>;

inline float value_of(int rank, std::size_t i) { return static_cast<float>((rank + 1) * static_cast<int>(i % 7 + 1)); }

inline float sum_of(std::size_t i) {
  float sum = 0;
  for (int r = 0; r < size(); ++r) sum += value_of(r, i);
  return sum;
}

inline void expect_sum(const std::vector<float>& got) {
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], sum_of(i)) << "element " << i;
}

inline std::vector<float> mine(std::size_t n) {
  std::vector<float> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = value_of(rank(), i);
  return v;
}

}  // namespace roda::test
