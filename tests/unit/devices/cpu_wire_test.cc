// Wire formats: how far values move, what becomes of hostile ones, and that bytes depend on values and numbers alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "plugins/devices/cpu/half.h"
#include "plugins/devices/cpu/kernels.h"

namespace roda::cpu {
namespace {

using Values = std::vector<float>;
using Message = std::vector<unsigned char>;
constexpr std::uint64_t kSeed = 0x1234567890abcdefu;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class WireTest : public testing::TestWithParam<int> {
 protected:
  static const roda_wire_format_entry& format() { return roda_wire_formats[GetParam()]; }
  static bool has_scale() { return format().scale > 0; }

  static Message encode(const Values& values, const Kernels& set = kernels(), std::uint64_t first = 0,
                        std::uint64_t seed = kSeed) {
    Message message(roda_wire_bytes(GetParam(), values.size()) + 1, 0xa5);
    set.encode[GetParam()](message.data(), values.data(), values.size(), first, seed);
    EXPECT_EQ(message.back(), 0xa5) << "wrote past the message";
    message.pop_back();
    return message;
  }
  static Values decode(const Message& message, std::size_t count, const Kernels& set = kernels()) {
    Values values(count, -7);
    set.decode[GetParam()](values.data(), nullptr, message.data(), count);
    return values;
  }

  // The whole contract for one vector, on every instruction set.
  static void check(const Values& values, const std::string& what) {
    const Message message = encode(values);
    const Values back = decode(message, values.size());
    EXPECT_EQ(encode(back), message) << what << ": what was decoded encodes to other bytes";
    EXPECT_EQ(encode(back, kernels(), 99, 5), message) << what << ": another draw changes what was decoded";
    const Values again = decode(encode(back), values.size());
    EXPECT_EQ(std::memcmp(again.data(), back.data(), back.size() * sizeof(float)), 0) << what;
    for (const Kernels* set : usable_kernels()) {
      EXPECT_EQ(encode(values, *set), message) << what << ", " << set->isa;
      const Values other = decode(message, values.size(), *set);
      EXPECT_EQ(std::memcmp(other.data(), back.data(), back.size() * sizeof(float)), 0) << what << ", " << set->isa;
    }
    check_errors(values, back, what);
  }

  static void check_errors(const Values& values, const Values& back, const std::string& what) {
    for (std::size_t begin = 0; begin < values.size(); begin += format().block) {
      const std::size_t end = std::min<std::size_t>(begin + format().block, values.size());
      float most = 0;
      bool is_finite = true;
      for (std::size_t i = begin; i < end; ++i) {
        most = std::max(most, std::abs(values[i]));
        is_finite &= std::isfinite(values[i]);
      }
      for (std::size_t i = begin; i < end; ++i) {
        const std::string where = what + ", element " + std::to_string(i);
        if (has_scale() && (!is_finite || most > 3e38f)) {
          ASSERT_TRUE(std::isnan(back[i])) << where;
        } else if (std::isnan(values[i])) {
          ASSERT_TRUE(std::isnan(back[i])) << where;
        } else if (has_scale() && most < 0x1p-100f) {
          ASSERT_EQ(back[i], 0) << where;
        } else if (has_scale() && std::isnan(back[i])) {
          ASSERT_GT(most, 2.9e38f) << where;
        } else if (std::isinf(back[i])) {
          ASSERT_EQ(std::signbit(values[i]), std::signbit(back[i])) << where;
          ASSERT_GE(std::abs(values[i]), GetParam() == RODA_WIRE_FP16 ? 65505 : 3.38e38f) << where;
        } else {
          const double least = GetParam() == RODA_WIRE_FP16 ? 3e-8 : has_scale() ? 0 : 1e-40;
          ASSERT_LE(std::abs(double{back[i]} - double{values[i]}), double{most} * format().error + least) << where;
        }
      }
    }
  }
};

Values random_values(std::size_t count, unsigned seed, int spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Values values(count);
  for (float& value : values)
    value = std::ldexp(normal(random), static_cast<int>(random() % (2 * spread + 1)) - spread);
  return values;
}

TEST_P(WireTest, HoldsForRandomValues) {
  for (unsigned round = 0; round < 300; ++round) {
    check(random_values(1 + round * 7 % 700, round, static_cast<int>(round % 30)), "round " + std::to_string(round));
  }
}

// Every pattern of bits is a value that a user may have.
TEST_P(WireTest, HoldsForRandomBits) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    Values values(300);
    const std::uint32_t exponent = random() % 256;
    for (float& value : values) {
      std::uint32_t bits = random();
      // Within a few powers of two of each other, or anywhere.
      if (round % 2 == 0) bits = (bits & 0x80ffffffu) | std::min<std::uint32_t>(exponent + random() % 8, 255) << 23;
      value = float_of(bits);
    }
    check(values, "round " + std::to_string(round));
  }
}

TEST_P(WireTest, HoldsForHostileValues) {
  const float most = std::numeric_limits<float>::max(), least = std::numeric_limits<float>::denorm_min();
  const Values hostile = {0.0F,      -0.0F,      least, -least,   0x1p-126F, 0x1.fffffep-101F,
                          0x1p-100F, -0x1p-100F, 1,     -1,       65504,     65519,
                          65520,     1e-8F,      1e38F, 2.99e38F, 2.9e38F,   3e38F,
                          3.01e38F,  0x1.dp127F, most,  -most,    kInfinity, -kInfinity,
                          kNaN,      -kNaN,      464,   232,      232.5F,    127,
                          126.5F,    7};
  for (const float one : hostile) {
    check({one}, "one " + std::to_string(one));
    for (const float other : hostile) check({one, other, 0.3F}, std::to_string(one) + " " + std::to_string(other));
    Values spread = random_values(600, 3, 2);
    spread[300] = one;
    check(spread, "among others " + std::to_string(one));
  }
}

// A message may begin at any multiple of a block, and end anywhere.
TEST_P(WireTest, BytesDoNotDependOnWhereAMessageIsCut) {
  const Values values = random_values(2000, 11, 3);
  const Message whole = encode(values);
  for (const std::size_t cut : {256U, 512U, 1792U}) {
    Message parts = encode({values.begin(), values.begin() + static_cast<long>(cut)});
    const Message rest = encode({values.begin() + static_cast<long>(cut), values.end()}, kernels(), cut);
    parts.insert(parts.end(), rest.begin(), rest.end());
    EXPECT_EQ(parts, whole) << cut;
  }
}

TEST_P(WireTest, AddsWhatItDecodes) {
  for (const std::size_t count : {1U, 31U, 256U, 777U}) {
    const Values values = random_values(count, 1, 2), own = random_values(count, 2, 2);
    const Message message = encode(values);
    const Values decoded = decode(message, count);
    for (const Kernels* set : usable_kernels()) {
      Values sum(count), in_place = own;
      set->decode[GetParam()](sum.data(), own.data(), message.data(), count);
      set->decode[GetParam()](in_place.data(), in_place.data(), message.data(), count);
      EXPECT_EQ(sum, in_place) << set->isa;
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(sum[i], own[i] + decoded[i]) << set->isa << " " << i;
    }
  }
}

// Stochastic ones come to the value on average; others don't look at the seed.
TEST_P(WireTest, DrawsFairly) {
  Values values(256, 0.3F);
  values[0] = 1;
  double sum = 0;
  int different = 0;
  const Message first = encode(values);
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Message message = encode(values, kernels(), 0, seed * 0x9e3779b97f4a7c15u);
    different += message != first ? 1 : 0;
    const Values back = decode(message, values.size());
    for (std::size_t i = 32; i < values.size(); ++i) sum += double{back[i]};
  }
  if (format().is_stochastic == 0) {
    EXPECT_EQ(different, 0);
    return;
  }
  EXPECT_GE(different, 199);
  const double samples = 200.0 * 224, step = format().error;
  EXPECT_NEAR(sum / samples, 0.3, 5 * step / std::sqrt(samples));
}

INSTANTIATE_TEST_SUITE_P(Formats, WireTest, testing::Range(1, int{RODA_WIRE_FORMAT_COUNT}),
                         [](const auto& info) { return std::string(roda_wire_formats[info.param].name); });

}  // namespace
}  // namespace roda::cpu
