#include "plugins/devices/cpu/cast.h"

#include <gtest/gtest.h>
#include <roda/abi/types.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "plugins/devices/cpu/cpu_device.h"
#include "plugins/devices/cpu/kernels.h"
#include "tests/unit/devices/values.h"

namespace roda::cpu {
namespace {

TEST(Cast, EveryPairKeepsSmallNumbers) {
  for (int from = 0; from < RODA_DTYPE_COUNT; ++from) {
    for (int to = 0; to < RODA_DTYPE_COUNT; ++to) {
      for (std::size_t count : {0, 1, 7, 40, 1029}) {
        std::size_t from_size = roda_dtype_size(from), to_size = roda_dtype_size(to);
        std::vector<unsigned char> in(count * from_size + 1), out(count * to_size + 1, 0xee);
        for (std::size_t i = 0; i < count; ++i) store(from, in.data() + i * from_size, static_cast<double>(i % 100));
        ASSERT_TRUE(cast(out.data(), to, in.data(), from, count));
        for (std::size_t i = 0; i < count; ++i) {
          double value = static_cast<double>(i % 100);
          double wanted = from == RODA_BOOL || to == RODA_BOOL ? (value != 0) : value;
          ASSERT_EQ(load(to, out.data() + i * to_size), wanted) << from << " to " << to << ", element " << i;
        }
        ASSERT_EQ(out.back(), 0xee);
      }
    }
  }
}

template <typename To, typename From>
To cast_one(int to_dtype, int from_dtype, From value) {
  To result{};
  EXPECT_TRUE(cast(&result, to_dtype, &value, from_dtype, 1));
  return result;
}

TEST(Cast, FloatsToIntegersTruncateAndSaturate) {
  EXPECT_EQ((cast_one<std::int32_t>(RODA_INT32, RODA_FLOAT32, -2.9f)), -2);
  EXPECT_EQ((cast_one<std::int8_t>(RODA_INT8, RODA_FLOAT64, 1e9)), 127);
  EXPECT_EQ((cast_one<std::uint8_t>(RODA_UINT8, RODA_FLOAT64, -1.0)), 0);
  EXPECT_EQ((cast_one<std::int64_t>(RODA_INT64, RODA_FLOAT32, 1e30f)), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ((cast_one<std::int64_t>(RODA_INT64, RODA_FLOAT64, -HUGE_VAL)), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ((cast_one<std::int16_t>(RODA_INT16, RODA_FLOAT32, std::nanf(""))), 0);
}

TEST(Cast, IntegersWrapAround) {
  EXPECT_EQ((cast_one<std::uint8_t>(RODA_UINT8, RODA_INT32, 257)), 1);
  EXPECT_EQ((cast_one<std::int8_t>(RODA_INT8, RODA_UINT8, std::uint8_t{255})), -1);
}

TEST(Cast, ToBoolIsNotZero) {
  EXPECT_EQ((cast_one<std::uint8_t>(RODA_BOOL, RODA_FLOAT64, 0.25)), 1);
  EXPECT_EQ((cast_one<std::uint8_t>(RODA_BOOL, RODA_FLOAT64, -0.0)), 0);
  EXPECT_EQ((cast_one<float>(RODA_FLOAT32, RODA_BOOL, std::uint8_t{7})), 1.0f);
}

TEST(Cast, DoubleToHalfRoundsOnce) {
  double above_middle = 1 + std::ldexp(1, -11) + std::ldexp(1, -40);
  EXPECT_EQ((cast_one<std::uint16_t>(RODA_FLOAT16, RODA_FLOAT64, above_middle)), 0x3c01);
}

TEST(Cast, UnknownDtypeIsRefused) {
  float x = 0;
  EXPECT_FALSE(cast(&x, RODA_FLOAT32, &x, 11, 1));
  EXPECT_EQ(roda_cpu_device()->cast(&x, -1, &x, RODA_FLOAT32, 1, nullptr, nullptr), RODA_ERR_UNSUPPORTED);
}

TEST(Scale, IntegersThroughDoubleTruncatedTowardZero) {
  for (const Kernels* set : usable_kernels()) {
    std::int32_t values[] = {7, -7, 1, 0, std::numeric_limits<std::int32_t>::max()};
    set->scale[RODA_INT32](values, 5, 0.5);
    EXPECT_EQ(values[0], 3);
    EXPECT_EQ(values[1], -3);
    EXPECT_EQ(values[2], 0);
    EXPECT_EQ(values[4], 1073741823);
    std::uint8_t bytes[] = {200, 3};
    set->scale[RODA_UINT8](bytes, 2, 2.0);
    EXPECT_EQ(bytes[0], 255);
    EXPECT_EQ(bytes[1], 6);
    std::int64_t wide[] = {std::int64_t{1} << 62, -5};
    set->scale[RODA_INT64](wide, 2, 4.0);
    EXPECT_EQ(wide[0], std::numeric_limits<std::int64_t>::max());
    EXPECT_EQ(wide[1], -20);
    std::uint8_t truth[] = {0, 1, 9};
    set->scale[RODA_BOOL](truth, 3, 0.5);
    EXPECT_EQ(truth[1], 0);
  }
}

TEST(Scale, FloatsEveryDtypeAndTail) {
  for (const Kernels* set : usable_kernels()) {
    for (int dtype : {RODA_FLOAT16, RODA_BFLOAT16, RODA_FLOAT32, RODA_FLOAT64}) {
      std::size_t size = roda_dtype_size(dtype);
      for (std::size_t count : {1, 5, 64, 1033}) {
        std::vector<unsigned char> data(count * size);
        for (std::size_t i = 0; i < count; ++i) store(dtype, data.data() + i * size, static_cast<double>(i % 64));
        set->scale[dtype](data.data(), count, 0.25);
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_EQ(load(dtype, data.data() + i * size), static_cast<double>(i % 64) * 0.25) << set->isa;
        }
      }
    }
  }
}

TEST(Scale, SinglePrecisionUsesASingleFactor) {
  float value = 3;
  ASSERT_EQ(roda_cpu_device()->scale(&value, 1, RODA_FLOAT32, 1.0 / 3, nullptr, nullptr), RODA_OK);
  EXPECT_EQ(value, 3.0f * static_cast<float>(1.0 / 3));
}

}  // namespace
}  // namespace roda::cpu
