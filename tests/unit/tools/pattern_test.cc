#include "tools/perf/pattern.h"

#include <gtest/gtest.h>
#include <roda/abi/types.h>

#include <cstring>

namespace roda::perf {
namespace {

template <typename T>
std::vector<T> filled(const Pattern& pattern, std::size_t first, std::size_t count) {
  std::vector<T> data(count);
  pattern.fill(data.data(), first, count);
  return data;
}

TEST(Pattern, ReducedIsTheSumOfTheInputs) {
  constexpr int kRanks = 5;
  const auto sum = filled<float>(Pattern::reduced(RODA_FLOAT32, RODA_SUM, kRanks), 3, 40);
  std::vector<float> expected(40);
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto part = filled<float>(Pattern::input(RODA_FLOAT32, RODA_SUM, rank), 3, 40);
    for (std::size_t i = 0; i < part.size(); ++i) expected[i] += part[i];
  }
  EXPECT_EQ(sum, expected);
}

TEST(Pattern, IntegersWrap) {
  std::uint8_t expected = 0;
  for (int rank = 0; rank < 60; ++rank) {
    expected =
        static_cast<std::uint8_t>(expected + filled<std::uint8_t>(Pattern::input(RODA_UINT8, RODA_SUM, rank), 6, 1)[0]);
  }
  EXPECT_EQ(filled<std::uint8_t>(Pattern::reduced(RODA_UINT8, RODA_SUM, 60), 6, 1)[0], expected);
}

TEST(Pattern, AverageAndProduct) {
  for (const int op : {RODA_AVERAGE, RODA_ADASUM}) {
    EXPECT_EQ(filled<double>(Pattern::reduced(RODA_FLOAT64, op, 4), 0, 3), (std::vector<double>{1, 2, 3}));
  }
  EXPECT_EQ(filled<double>(Pattern::reduced(RODA_FLOAT64, RODA_PRODUCT, 4), 0, 2), (std::vector<double>{4, 4}));
}

TEST(Pattern, HalfPrecisionBits) {
  // Rank 1 doubles: 2, 4, 6, 8, 10, 12, 14.
  const Pattern half = Pattern::input(RODA_FLOAT16, RODA_SUM, 1);
  EXPECT_EQ(filled<std::uint16_t>(half, 0, 3), (std::vector<std::uint16_t>{0x4000, 0x4400, 0x4600}));
  const Pattern brain = Pattern::input(RODA_BFLOAT16, RODA_SUM, 1);
  EXPECT_EQ(filled<std::uint16_t>(brain, 0, 3), (std::vector<std::uint16_t>{0x4000, 0x4080, 0x40c0}));
}

TEST(Pattern, OneWrongElementIsNoticedAnywhere) {
  const Pattern pattern = Pattern::input(RODA_INT32, RODA_SUM, 2);
  for (const std::size_t count : {1u, 13u, 14u, 15u, 100u}) {
    auto data = filled<std::int32_t>(pattern, 9, count);
    ASSERT_TRUE(pattern.matches(data.data(), 9, count));
    for (auto& element : data) {
      ++element;
      EXPECT_FALSE(pattern.matches(data.data(), 9, count));
      --element;
    }
  }
}

TEST(Pattern, ARankLeftOutIsNoticed) {
  for (std::int32_t dtype = 0; dtype < RODA_DTYPE_COUNT; ++dtype) {
    std::byte one[8];
    Pattern::reduced(dtype, RODA_SUM, 2).fill(one, 1, 1);
    const bool same = Pattern::input(dtype, RODA_SUM, 0).matches(one, 1, 1);
    EXPECT_EQ(same, dtype == RODA_BOOL) << roda_dtype_name(dtype);  // true or false is true
  }
}

}  // namespace
}  // namespace roda::perf
