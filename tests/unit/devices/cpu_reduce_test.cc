#include <gtest/gtest.h>
#include <roda/abi/types.h>

#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "plugins/devices/cpu/cpu_device.h"
#include "plugins/devices/cpu/kernels.h"
#include "tests/unit/devices/values.h"

namespace roda::cpu {
namespace {

constexpr int kOps[] = {RODA_SUM, RODA_MIN, RODA_MAX, RODA_PRODUCT};

double apply(int dtype, int op, double a, double b) {
  if (dtype == RODA_BOOL) return op == RODA_SUM || op == RODA_MAX ? a != 0 || b != 0 : a != 0 && b != 0;
  if ((op == RODA_MIN || op == RODA_MAX) && (std::isnan(a) || std::isnan(b))) return std::nan("");
  switch (op) {
    case RODA_SUM:
      return a + b;
    case RODA_MIN:
      return std::min(a, b);
    case RODA_MAX:
      return std::max(a, b);
    default:
      return a * b;
  }
}

double rounded(int dtype, double value) {
  unsigned char bytes[8];
  store(dtype, bytes, value);
  return load(dtype, bytes);
}

// n arrays of random values, each starting `shift` bytes past alignment, and what their reduction is.
struct Case {
  Case(int dtype, int op, int n, std::size_t count, std::size_t shift)
      : dtype(dtype), size(roda_dtype_size(dtype)), count(count), shift(shift), storage(n), expected(count) {
    std::mt19937 random(static_cast<unsigned>(dtype * 1000 + op * 100 + n));
    for (auto& bytes : storage) {
      bytes.resize(count * size + shift + 8);
      sources.push_back(bytes.data() + shift);
    }
    for (std::size_t i = 0; i < count; ++i) {
      for (int k = 0; k < n; ++k) {
        double value = small_value(dtype, random);
        store(dtype, storage[k].data() + shift + i * size, value);
        expected[i] = k == 0 ? value : apply(dtype, op, expected[i], value);
      }
      expected[i] = rounded(dtype, expected[i]);
    }
  }
  void check(const void* result) const {
    for (std::size_t i = 0; i < count; ++i) {
      double got = load(dtype, static_cast<const char*>(result) + i * size);
      ASSERT_PRED2(same, got, expected[i]) << "element " << i << " of " << count;
    }
  }
  int dtype;
  std::size_t size, count, shift;
  std::vector<std::vector<unsigned char>> storage;
  std::vector<const void*> sources;
  std::vector<double> expected;
};

class ReduceTest : public ::testing::TestWithParam<std::tuple<int, int>> {
 protected:
  int dtype() const { return std::get<0>(GetParam()); }
  int op() const { return std::get<1>(GetParam()); }
};

TEST_P(ReduceTest, EverySetEverySizeAndNumberOfSources) {
  for (const Kernels* set : usable_kernels()) {
    for (int n : {1, 2, 3, 4, 5, 6, 7, 8}) {
      for (std::size_t count : {0, 1, 2, 3, 15, 16, 17, 31, 33, 63, 65, 127, 1023, 1025, 2500}) {
        SCOPED_TRACE(std::string(set->isa) + ", sources " + std::to_string(n));
        Case test(dtype(), op(), n, count, 0);
        std::vector<unsigned char> result(count * test.size + 1, 0xee);
        set->reduce[dtype()][op()](result.data(), test.sources.data(), n, count);
        ASSERT_NO_FATAL_FAILURE(test.check(result.data()));
        ASSERT_EQ(result.back(), 0xee) << "wrote past the end";
      }
    }
  }
}

TEST_P(ReduceTest, InPlaceInAnyOperand) {
  for (const Kernels* set : usable_kernels()) {
    for (int n : {1, 2, 3, 4, 5, 8}) {
      for (int place = 0; place < n; ++place) {
        SCOPED_TRACE(std::string(set->isa) + ", operand " + std::to_string(place) + " of " + std::to_string(n));
        Case test(dtype(), op(), n, 1500, 0);
        void* destination = test.storage[place].data();
        set->reduce[dtype()][op()](destination, test.sources.data(), n, test.count);
        ASSERT_NO_FATAL_FAILURE(test.check(destination));
      }
    }
  }
}

TEST_P(ReduceTest, OffTheVectorAlignment) {
  for (const Kernels* set : usable_kernels()) {
    SCOPED_TRACE(set->isa);
    for (std::size_t elements : {1, 3, 7}) {
      Case test(dtype(), op(), 3, 777, elements * roda_dtype_size(dtype()));
      void* destination = test.storage[1].data() + test.shift;
      set->reduce[dtype()][op()](destination, test.sources.data(), 3, test.count);
      ASSERT_NO_FATAL_FAILURE(test.check(destination));
    }
  }
}

std::string case_name(const ::testing::TestParamInfo<std::tuple<int, int>>& info) {
  return std::string(roda_dtype_name(std::get<0>(info.param))) + "_" + roda_reduce_op_name(std::get<1>(info.param));
}

std::vector<int> dtypes(bool reducible) {
  std::vector<int> all;
  for (int dtype = 0; dtype < RODA_DTYPE_COUNT; ++dtype) {
    if ((roda_dtype_is(dtype, RODA_REDUCES) != 0) == reducible) all.push_back(dtype);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(AllDtypes, ReduceTest,
                         ::testing::Combine(::testing::ValuesIn(dtypes(true)), ::testing::ValuesIn(kOps)), case_name);

// What travels and is not reduced has no kernel, and the device says so by name.
TEST(Reduce, DtypesWithoutArithmeticAreRefused) {
  const roda_device& device = *roda_cpu_device();
  ASSERT_FALSE(dtypes(false).empty());
  for (const int dtype : dtypes(false)) {
    std::uint64_t data = 0;
    roda_error error{};
    error.struct_size = sizeof error;
    for (const int op : kOps) {
      EXPECT_EQ(device.reduce(&data, &data, &data, 1, dtype, op, nullptr, &error), RODA_ERR_UNSUPPORTED);
      EXPECT_NE(std::string(error.message).find(roda_dtype_name(dtype)), std::string::npos) << error.message;
    }
    EXPECT_EQ(device.scale(&data, 1, dtype, 0.5, nullptr, &error), RODA_ERR_UNSUPPORTED);
    EXPECT_NE(std::string(error.message).find(roda_dtype_name(dtype)), std::string::npos) << error.message;
  }
}

// Pairs of every special value with every other, in vectors and in tails.
TEST(Reduce, SpecialFloats) {
  for (int dtype : {RODA_FLOAT16, RODA_BFLOAT16, RODA_FLOAT32, RODA_FLOAT64}) {
    double tiny = dtype == RODA_FLOAT16   ? 0x1p-24
                  : dtype == RODA_FLOAT64 ? std::numeric_limits<double>::denorm_min()
                  : dtype == RODA_FLOAT32 ? std::numeric_limits<float>::denorm_min()
                                          : 0x1p-133;
    std::vector<double> special = {0, 1, -2, HUGE_VAL, -HUGE_VAL, std::nan(""), tiny, -3 * tiny};
    for (const Kernels* set : usable_kernels()) {
      for (int op : kOps) {
        std::size_t size = roda_dtype_size(dtype), count = 67;
        for (std::size_t turn = 0; turn < special.size(); ++turn) {
          std::vector<unsigned char> a(count * size), b(count * size), to(count * size);
          for (std::size_t i = 0; i < count; ++i) {
            store(dtype, a.data() + i * size, special[i % special.size()]);
            store(dtype, b.data() + i * size, special[(i + turn) % special.size()]);
          }
          const void* sources[] = {a.data(), b.data()};
          set->reduce[dtype][op](to.data(), sources, 2, count);
          for (std::size_t i = 0; i < count; ++i) {
            double left = special[i % special.size()], right = special[(i + turn) % special.size()];
            double wanted = rounded(dtype, apply(dtype, op, left, right));
            ASSERT_PRED2(same, load(dtype, to.data() + i * size), wanted)
                << set->isa << " " << roda_dtype_name(dtype) << " op " << op << ": " << left << ", " << right;
          }
        }
      }
    }
  }
}

TEST(Reduce, IntegersWrapAround) {
  std::int8_t a8[] = {127}, b8[] = {1};
  std::int64_t a64[] = {std::numeric_limits<std::int64_t>::max()}, b64[] = {2};
  std::uint16_t a16[] = {65535}, b16[] = {65535};
  const roda_device* cpu = roda_cpu_device();
  ASSERT_EQ(cpu->reduce(a8, a8, b8, 1, RODA_INT8, RODA_SUM, nullptr, nullptr), RODA_OK);
  EXPECT_EQ(a8[0], -128);
  ASSERT_EQ(cpu->reduce(a64, a64, b64, 1, RODA_INT64, RODA_PRODUCT, nullptr, nullptr), RODA_OK);
  EXPECT_EQ(a64[0], -2);
  ASSERT_EQ(cpu->reduce(a16, a16, b16, 1, RODA_UINT16, RODA_PRODUCT, nullptr, nullptr), RODA_OK);
  EXPECT_EQ(a16[0], 1);
}

TEST(Reduce, AnyByteButZeroIsTrue) {
  unsigned char a[] = {2, 0, 4, 0}, b[] = {1, 8, 0, 0}, to[4];
  const roda_device* cpu = roda_cpu_device();
  ASSERT_EQ(cpu->reduce(to, a, b, 4, RODA_BOOL, RODA_SUM, nullptr, nullptr), RODA_OK);
  EXPECT_EQ(std::memcmp(to, "\1\1\1\0", 4), 0);
  ASSERT_EQ(cpu->reduce(to, a, b, 4, RODA_BOOL, RODA_PRODUCT, nullptr, nullptr), RODA_OK);
  EXPECT_EQ(std::memcmp(to, "\1\0\0\0", 4), 0);
}

TEST(Reduce, SixteenBitSumsOfManyAreRoundedOnce) {
  // 2048 + 1 is 2048 in float16; 2048 + 1 + 1 is 2050.
  std::uint16_t big = f16_from_float(2048), one = f16_from_float(1), to = 0;
  const void* sources[] = {&big, &one, &one};
  ASSERT_EQ(reduce_many(&to, sources, 3, 1, RODA_FLOAT16, RODA_SUM), RODA_OK);
  EXPECT_EQ(float_from_f16(to), 2050);
}

TEST(Reduce, RefusesWhatHasNoMeaning) {
  const roda_device* cpu = roda_cpu_device();
  float x = 0;
  roda_error error{};
  error.struct_size = sizeof error;
  EXPECT_EQ(cpu->reduce(&x, &x, &x, 1, RODA_FLOAT32, RODA_ADASUM, nullptr, &error), RODA_ERR_UNSUPPORTED);
  EXPECT_NE(std::string(error.message).find("adasum"), std::string::npos);
  EXPECT_EQ(cpu->reduce(&x, &x, &x, 1, 99, RODA_SUM, nullptr, nullptr), RODA_ERR_UNSUPPORTED);
  const void* sources[] = {&x};
  EXPECT_EQ(reduce_many(&x, sources, 0, 1, RODA_FLOAT32, RODA_SUM), RODA_ERR_INVALID);
}

}  // namespace
}  // namespace roda::cpu
