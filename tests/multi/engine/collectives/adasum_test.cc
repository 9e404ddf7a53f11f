// Adasum, and what a rank that joined means to it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/multi/engine/collectives/values.h"

namespace roda::test {
namespace {

// With averages inside hosts each rank's share is that much smaller.
double adasum_divisor() {
  const bool averages = std::getenv("RODA_TEST_HIERARCHICAL_ADASUM") != nullptr && roda_cross_size() > 1;
  return averages ? roda_local_size() : 1;
}

void expect_almost(const std::vector<double>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] != expected[i]) {  // most are exact, and an expectation for each takes long
      ASSERT_DOUBLE_EQ(got[i], expected[i]) << "element " << i;
    }
  }
}

// Rank r has r + 1 at element r of n, zeros elsewhere: orthogonal vectors, whose adaptive sum is their sum. And equal
// vectors, whose adaptive sum is their average. In one group, so that each must have weights of its own.
TEST(Adasum, AddsWhatIsOrthogonalAndAveragesWhatIsAlike) {
  const bool works = (size() & (size() - 1)) == 0;
  const double share = adasum_divisor();
  for (const int dtype : {RODA_FLOAT32, RODA_FLOAT64}) {
    for (const std::int64_t n : {std::int64_t{13}, std::int64_t{300000}}) {
      const std::size_t count = static_cast<std::size_t>(n);
      std::vector<double> wide[2] = {std::vector<double>(count), std::vector<double>(count, 3)};
      wide[0][static_cast<std::size_t>(rank())] = rank() + 1;
      std::vector<float> narrow[2];
      for (int i = 0; i < 2; ++i) narrow[i].assign(wide[i].begin(), wide[i].end());
      const std::string names[2] = {"orthogonal" + std::to_string(n), "alike" + std::to_string(n)};
      const Shape shape{n};
      std::vector<roda_op> ops;
      for (int i = 0; i < 2; ++i) {
        void* data = dtype == RODA_FLOAT64 ? static_cast<void*>(wide[i].data()) : narrow[i].data();
        ops.push_back(make_op(RODA_ALLREDUCE, names[i], shape, data, data, dtype));
        ops.back().op = RODA_ADASUM;
        ops.back().postscale = 2;
      }
      roda_handle handle = 0;
      ASSERT_EQ(submit(ops, &handle).code, RODA_OK);
      const Outcome o = wait(handle);
      if (!works) {
        EXPECT_NE(o.message.find("non-power-of-2 ranks"), std::string::npos) << o.message;
        continue;
      }
      ASSERT_EQ(o.code, RODA_OK) << o.message;
      for (int i = 0; i < 2 && dtype == RODA_FLOAT32; ++i) wide[i].assign(narrow[i].begin(), narrow[i].end());
      std::vector<double> sums(count, 0), averages(count, 6);
      for (std::size_t i = 0; i < static_cast<std::size_t>(size()); ++i) {
        sums[i] = 2.0 * static_cast<double>(i + 1) / share;
      }
      expect_almost(wide[0], sums);
      expect_almost(wide[1], averages);
    }
  }
}

TEST(Adasum, OfWholeNumbersIsRefused) {
  std::vector<std::int32_t> data(4, 1);
  const Shape shape{4};
  roda_op op = make_op(RODA_ALLREDUCE, "whole", shape, data.data(), data.data(), RODA_INT32);
  op.op = RODA_ADASUM;
  const Outcome o = run(op);
  EXPECT_EQ(o.code, RODA_ERR_UNKNOWN);
  EXPECT_NE(o.message.find("Unsupported data type int32"), std::string::npos) << o.message;
}

// Who joined gives zeros, which leave the others' adaptive sum as it is.
TEST(Join, AdasumGoesOnWithoutTheJoined) {
  if ((size() & (size() - 1)) != 0) GTEST_SKIP() << "needs a power of two of ranks";
  for (int round = 0; round < 2; ++round) {
    if (rank() == 0) {
      std::vector<float> data{1, 2, 3};
      const Shape shape{3};
      roda_op op = make_op(RODA_ALLREDUCE, "alone", shape, data.data(), data.data());
      op.op = RODA_ADASUM;
      const Outcome o = run(op);
      ASSERT_EQ(o.code, RODA_OK) << o.message;
      const auto share = static_cast<float>(1 / adasum_divisor());
      EXPECT_EQ(data, (std::vector<float>{share, 2 * share, 3 * share}));
    }
    ASSERT_EQ(run(make_op(RODA_JOIN, "", {}, nullptr, nullptr)).code, RODA_OK);
  }
}

}  // namespace
}  // namespace roda::test
