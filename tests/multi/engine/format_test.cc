// Gradients whose messages between hosts have a wire format (HOROVOD_SELECT): sums within the proved bound, the same
// bits on every rank, and again; what has no format is as exact as ever.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/multi/engine/rank.h"

namespace roda::test {
namespace {

// Two roundings to int8, and those of float32.
constexpr double kBound = 0.0079;

std::vector<float> noise(int owner, std::size_t count) {
  std::vector<float> all(count);
  std::uint32_t state = static_cast<std::uint32_t>(owner) + 1;
  for (float& value : all) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31F;
  }
  return all;
}

std::vector<float> sum(const std::string& name, const std::vector<float>& input, int op) {
  std::vector<float> output(input.size(), -1);
  const std::vector<std::int64_t> shape{static_cast<std::int64_t>(input.size())};
  roda_op asked = make_op(RODA_ALLREDUCE, name, shape, input.data(), output.data());
  asked.op = op;
  const Outcome outcome = run(asked);
  EXPECT_EQ(outcome.code, RODA_OK) << outcome.message;
  return output;
}

TEST(Format, SumsWithinTheBoundTheSameOnAllRanksAndAgain) {
  for (const std::size_t count : {100U, 300'001U, 2'000'000U}) {
    const std::string name = "gradient" + std::to_string(count);
    const std::vector<float> output = sum(name, noise(rank(), count), RODA_AVERAGE);
    std::vector<double> exact(count);
    double largest = 0;
    for (int owner = 0; owner < size(); ++owner) {
      const std::vector<float> part = noise(owner, count);
      for (std::size_t i = 0; i < count; ++i) exact[i] += double{part[i]} / size();
      largest += double{std::abs(*std::ranges::max_element(part, {}, [](float v) { return std::abs(v); }))} / size();
    }
    double worst = 0;
    for (std::size_t i = 0; i < count; ++i) worst = std::max(worst, std::abs(double{output[i]} - exact[i]));
    EXPECT_LE(worst, kBound * largest) << count;
    EXPECT_GT(worst, 1e-5) << "nothing was encoded";
    std::vector<float> of_first = output;
    const std::vector<std::int64_t> shape{static_cast<std::int64_t>(count)};
    const std::string again = name + " of rank 0";
    const Outcome outcome = run(make_op(RODA_BROADCAST, again, shape, of_first.data(), of_first.data()));
    ASSERT_EQ(outcome.code, RODA_OK) << outcome.message;
    EXPECT_EQ(std::memcmp(of_first.data(), output.data(), count * sizeof(float)), 0) << count;
    EXPECT_EQ(sum(name, noise(rank(), count), RODA_AVERAGE), output) << count;
  }
}

TEST(Format, LeavesOthersAsTheyAre) {
  std::vector<std::int32_t> whole(5000, 1'000'003 * (rank() + 1)), total(whole.size());
  const std::vector<std::int64_t> shape{5000};
  const Outcome outcome = run(make_op(RODA_ALLREDUCE, "whole", shape, whole.data(), total.data(), RODA_INT32));
  ASSERT_EQ(outcome.code, RODA_OK) << outcome.message;
  EXPECT_EQ(total, std::vector<std::int32_t>(5000, 1'000'003 * size() * (size() + 1) / 2));
  const std::vector<float> largest =
      sum("largest", std::vector<float>(5000, 0.1F * static_cast<float>(rank())), RODA_MAX);
  EXPECT_EQ(largest, std::vector<float>(5000, 0.1F * static_cast<float>(size() - 1)));
}

}  // namespace
}  // namespace roda::test
