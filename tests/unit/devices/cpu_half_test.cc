#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "plugins/devices/cpu/half.h"
#include "plugins/devices/cpu/kernels.h"
#include "tests/unit/devices/values.h"

namespace roda::cpu {
namespace {

// The value of a 16-bit float with so many mantissa bits, from the definition.
double by_definition(std::uint16_t bits, int mantissa_bits, int bias) {
  int fraction = bits & ((1 << mantissa_bits) - 1);
  int exponent = (bits & 0x7fff) >> mantissa_bits;
  double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 0x7fff >> mantissa_bits) return fraction ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - mantissa_bits);
  return sign * std::ldexp(fraction + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

struct Format {
  int mantissa_bits;
  int bias;
  float (*widen)(std::uint16_t);
  std::uint16_t (*narrow)(float);
};
const Format kF16{10, 15, float_from_f16, f16_from_float};
const Format kBf16{7, 127, float_from_bf16, bf16_from_float};

class HalfTest : public ::testing::TestWithParam<Format> {};

TEST_P(HalfTest, EveryValueWidensExactlyAndComesBack) {
  const Format& format = GetParam();
  for (unsigned bits = 0; bits <= 0xffff; ++bits) {
    auto half = static_cast<std::uint16_t>(bits);
    double expected = by_definition(half, format.mantissa_bits, format.bias);
    float wide = format.widen(half);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(wide)) << bits;
      ASSERT_TRUE(std::isnan(format.widen(format.narrow(wide)))) << bits;
      continue;
    }
    ASSERT_EQ(wide, expected) << bits;
    ASSERT_EQ(std::signbit(wide), (bits & 0x8000) != 0) << bits;
    ASSERT_EQ(format.narrow(wide), half) << bits;
  }
}

// Between any two neighbours: just below the middle goes down, just above up, the middle to the even one.
TEST_P(HalfTest, RoundsToNearestEven) {
  const Format& format = GetParam();
  const unsigned infinity = (0x7fffu >> format.mantissa_bits) << format.mantissa_bits;
  for (unsigned bits = 0; bits + 1 < infinity; ++bits) {
    auto low = static_cast<std::uint16_t>(bits);
    float middle = static_cast<float>((static_cast<double>(format.widen(low)) +
                                       static_cast<double>(format.widen(static_cast<std::uint16_t>(bits + 1)))) /
                                      2);
    for (float sign : {1.0f, -1.0f}) {
      unsigned sign_bit = sign < 0 ? 0x8000u : 0u;
      ASSERT_EQ(format.narrow(sign * std::nextafter(middle, 0.0f)), bits | sign_bit);
      ASSERT_EQ(format.narrow(sign * std::nextafter(middle, HUGE_VALF)), (bits + 1) | sign_bit);
      ASSERT_EQ(format.narrow(sign * middle), (bits + (bits & 1)) | sign_bit);
    }
  }
}

TEST_P(HalfTest, OverflowIsInfinity) {
  const Format& format = GetParam();
  const unsigned infinity = (0x7fffu >> format.mantissa_bits) << format.mantissa_bits;
  EXPECT_EQ(format.narrow(std::numeric_limits<float>::max()), infinity);
  EXPECT_EQ(format.narrow(-HUGE_VALF), infinity | 0x8000u);
}

INSTANTIATE_TEST_SUITE_P(Formats, HalfTest, ::testing::Values(kF16, kBf16),
                         [](const auto& info) { return info.param.bias == 15 ? "f16" : "bf16"; });

TEST(Half, TwoStepRoundingEqualsOneStep) {
  // 1 + 2^-11 + 2^-40: float drops the last bit, and the middle would then go to even.
  double above_middle = 1 + std::ldexp(1, -11) + std::ldexp(1, -40);
  EXPECT_EQ(f16_from_float(float_to_odd(above_middle)), 0x3c01);
  EXPECT_EQ(f16_from_float(float_to_odd(1 + std::ldexp(1, -11) - std::ldexp(1, -40))), 0x3c00);
  EXPECT_EQ(float_to_odd(0.5), 0.5f);
  EXPECT_TRUE(std::isnan(float_to_odd(std::nan(""))));
  EXPECT_EQ(float_to_odd(-HUGE_VAL), -HUGE_VALF);
}

// The kernels' own conversions, of every instruction set, in whole vectors and in what is left of one: a product with
// one widens and adds nothing, and one that is scaled by any float narrows that.
TEST(HalfKernels, ConvertAsThePlainFunctionsDo) {
  constexpr std::size_t kCount = 17;
  std::mt19937 random(1);
  for (const Kernels* set : usable_kernels()) {
    for (const auto& [dtype, format] : {std::pair{RODA_FLOAT16, kF16}, std::pair{RODA_BFLOAT16, kBf16}}) {
      const std::uint16_t one = format.narrow(1);
      for (unsigned bits = 0; bits <= 0xffff; ++bits) {
        const auto half = static_cast<std::uint16_t>(bits);
        double sums[3] = {};
        set->dots[dtype](&half, &one, 1, sums);
        const float expected = format.widen(half);
        ASSERT_TRUE(sums[0] == expected || std::isnan(expected)) << bits;
        ASSERT_EQ(std::isnan(sums[0]), std::isnan(expected)) << bits;
      }
      for (int round = 0; round < 30'000; ++round) {
        const float value = float_of(static_cast<std::uint32_t>(random()));
        std::vector<std::uint16_t> halves(kCount, one);
        set->scale[dtype](halves.data(), halves.size(), value);
        for (const std::uint16_t half : halves) ASSERT_EQ(half, format.narrow(value)) << value;
      }
    }
  }
}

}  // namespace
}  // namespace roda::cpu
