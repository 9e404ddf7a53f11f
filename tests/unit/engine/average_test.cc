#include "core/launch/average.h"

#include <gtest/gtest.h>
#include <roda/abi/types.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace roda::engine {
namespace {

// What the ranks' numbers come to: spread out, added up as the sums' type does it, and brought back.
template <typename T, typename Sum>
std::vector<T> average_of(const std::vector<std::vector<T>>& ranks, int dtype, double postscale = 1.0) {
  const int members = static_cast<int>(ranks.size());
  const std::size_t count = ranks.front().size(), width = sum_width(dtype);
  std::vector<Sum> total(count * width), own(count * width);
  for (const std::vector<T>& values : ranks) {
    spread(own.data(), values.data(), count, dtype, members);
    for (std::size_t i = 0; i < total.size(); ++i) total[i] = static_cast<Sum>(total[i] + own[i]);
  }
  std::vector<T> result(count);
  average(result.data(), total.data(), count, dtype, members, postscale);
  return result;
}

// Every pair of bytes, between so many ranks that one has it and the others are at the limits.
template <typename T>
void expect_exact_bytes(int dtype) {
  constexpr int least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
  for (int members = 1; members <= 7; ++members) {
    std::vector<std::vector<T>> ranks(static_cast<std::size_t>(members));
    std::vector<T> expected;
    for (int a = least; a <= most; ++a) {
      for (int b = least; b <= most; ++b) {
        int sum = 0;
        for (int rank = 0; rank < members; ++rank) {
          const int value = rank == 0 ? a : rank == 1 ? b : rank % 2 == 0 ? most : least;
          ranks[static_cast<std::size_t>(rank)].push_back(static_cast<T>(value));
          sum += value;
        }
        expected.push_back(static_cast<T>(sum / members));
      }
    }
    ASSERT_EQ((average_of<T, std::int32_t>(ranks, dtype)), expected) << members;
  }
}

TEST(Average, OfBytesIsExact) {
  expect_exact_bytes<std::int8_t>(RODA_INT8);
  expect_exact_bytes<std::uint8_t>(RODA_UINT8);
}

// Every whole number that the table of dtypes has, signed or not: the largest value and 0 average to half of it.
TEST(Average, OfEveryWholeNumberOfTheTable) {
  for (int dtype = 0; dtype < RODA_DTYPE_COUNT; ++dtype) {
    if (roda_dtype_is(dtype, RODA_INTEGER) == 0) continue;
    const std::size_t bits = 8 * roda_dtype_size(dtype) - (roda_dtype_of(dtype)->dlpack == 0 ? 1 : 0);
    const std::uint64_t most = ~std::uint64_t{0} >> (64 - bits), zero = 0;
    std::int64_t total[2] = {}, own[2] = {};
    for (const std::uint64_t& value : {most, zero}) {
      spread(own, &value, 1, dtype, 2);
      for (int i = 0; i < 2; ++i) total[i] += own[i];
    }
    std::uint64_t result = 0;
    average(&result, total, 1, dtype, 2, 1.0);
    EXPECT_EQ(result, most / 2) << roda_dtype_name(dtype);
  }
}

TEST(Average, OfAnyWidthIsExactAtItsLimits) {
  EXPECT_EQ((average_of<std::int16_t, std::int32_t>({{-32768, 32767, 7}, {-32768, 32767, -8}}, RODA_INT16)),
            (std::vector<std::int16_t>{-32768, 32767, 0}));
  EXPECT_EQ((average_of<std::uint16_t, std::int32_t>({{65535, 1}, {65535, 0}, {65535, 1}}, RODA_UINT16)),
            (std::vector<std::uint16_t>{65535, 0}));
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
  EXPECT_EQ((average_of<std::int32_t, std::int64_t>({{most, -most - 1}, {most, -most - 1}}, RODA_INT32)),
            (std::vector<std::int32_t>{most, -most - 1}));
}

// Two numbers for each: whatever the signs of what is whole and what is left over.
TEST(Average, Of64BitsIsExact) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max(),
                         least = std::numeric_limits<std::int64_t>::min();
  const std::vector<std::int64_t> kinds{least, least + 1, -1000003, -7, -2, -1, 0, 1, 2, 5, 1000003, most - 1, most};
  for (int members = 1; members <= 4; ++members) {
    std::size_t combinations = 1;
    for (int rank = 0; rank < members; ++rank) combinations *= kinds.size();
    std::vector<std::vector<std::int64_t>> ranks(static_cast<std::size_t>(members));
    std::vector<std::int64_t> expected;
    for (std::size_t i = 0; i < combinations; ++i) {
      __extension__ __int128 sum = 0;
      std::size_t digits = i;
      for (auto& values : ranks) {
        values.push_back(kinds[digits % kinds.size()]);
        sum += values.back();
        digits /= kinds.size();
      }
      expected.push_back(static_cast<std::int64_t>(sum / members));
    }
    ASSERT_EQ((average_of<std::int64_t, std::int64_t>(ranks, RODA_INT64)), expected) << members;
  }
}

TEST(Average, IsMultipliedBeforeItIsCutOff) {
  EXPECT_EQ((average_of<std::int8_t, std::int32_t>({{3, -3, 100}, {4, -4, 100}}, RODA_INT8, 2.0)),
            (std::vector<std::int8_t>{7, -7, 127}));
  EXPECT_EQ((average_of<std::int64_t, std::int64_t>({{3, -3}, {4, -4}}, RODA_INT64, 2.0)),
            (std::vector<std::int64_t>{7, -7}));
  EXPECT_EQ((average_of<std::int8_t, std::int32_t>({{100}, {100}}, RODA_INT8, 0.0)), (std::vector<std::int8_t>{0}));
}

TEST(Average, OfManyRanksNeeds64Bits) {
  EXPECT_EQ(sum_dtype(RODA_UINT16, 1 << 15), RODA_INT32);
  EXPECT_EQ(sum_dtype(RODA_UINT16, (1 << 15) + 1), RODA_INT64);
  EXPECT_EQ(sum_dtype(RODA_FLOAT32, 2), RODA_FLOAT32);
  EXPECT_EQ(factor_before(RODA_FLOAT16, 3), 0.25);
  EXPECT_EQ(factor_before(RODA_FLOAT16, 1), 1.0);
  EXPECT_EQ(factor_before(RODA_FLOAT32, 3), 1.0);
}

}  // namespace
}  // namespace roda::engine
