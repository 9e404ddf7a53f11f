// Values that tell ranks and elements apart, and whose sums are exact.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/multi/engine/elements.h"
#include "tests/multi/engine/rank.h"

namespace roda::test {

using Shape = std::vector<std::int64_t>;

inline constexpr std::size_t kPeriod = 7;

inline float value_of(int rank, std::size_t i) {
  return static_cast<float>((rank + 1) * static_cast<int>(i % kPeriod + 1));
}

inline float sum_of(std::size_t i) {
  float sum = 0;
  for (int r = 0; r < size(); ++r) sum += value_of(r, i);
  return sum;
}

inline void expect_sum(const std::vector<float>& got) {
  ASSERT_TRUE(are_equal(got, repeating(kPeriod, got.size(), sum_of)));
}

inline std::vector<float> of_rank(int owner, std::size_t n) {
  return repeating(kPeriod, n, [&](std::size_t i) { return value_of(owner, i); });
}

inline std::vector<float> mine(std::size_t n) { return of_rank(rank(), n); }

}  // namespace roda::test
