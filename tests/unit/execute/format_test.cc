// Allreduces whose messages have a wire format: values within the proved bound, the same bits on every rank, and the
// same again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "algorithms/schedule/format.h"
#include "plugins/devices/cpu/cpu_device.h"
#include "tests/unit/execute/world.h"

namespace roda::execute::testing {
namespace {

using schedule::Collective;
using Values = std::vector<float>;

Values noise_of(int rank, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank) + 3);
  std::normal_distribution<float> noise(0, 1);
  Values all(count);
  for (float& v : all) v = std::ldexp(noise(random), static_cast<int>(random() % 5));
  return all;
}

struct Case {
  std::string algorithm;
  int size = 2;
  std::size_t count = 1;
  std::uint64_t launch = 1;
};

// What every rank ends with; it is the same on all of them.
Values sum_of(const Case& c, const ExecuteOptions& options, const std::vector<Values>& inputs) {
  std::vector<Values> outputs(static_cast<std::size_t>(c.size));
  run_world(c.size, options, [&](Rank& self) {
    const auto me = static_cast<std::size_t>(self.rank);
    outputs[me] = Values(c.count, -1);
    StageArgs args;
    args.count = c.count;
    args.launch = c.launch;
    args.input = inputs[me].data();
    args.output = outputs[me].data();
    const Status status = self.run(c.algorithm, args);
    ASSERT_TRUE(status.ok()) << status.message();
  });
  for (const Values& output : outputs) {
    EXPECT_EQ(std::memcmp(output.data(), outputs.front().data(), c.count * sizeof(float)), 0) << c.algorithm;
  }
  return outputs.front();
}

std::vector<Values> inputs_of(const Case& c) {
  std::vector<Values> inputs;
  for (int rank = 0; rank < c.size; ++rank) inputs.push_back(noise_of(rank, c.count));
  return inputs;
}

void check_bound(const Case& c, const std::vector<Values>& inputs, const Values& sums) {
  const schedule::Algorithm& algorithm = *schedule::find_algorithm(Collective::kAllreduce, c.algorithm);
  const std::size_t block = roda_wire_formats[algorithm.format].block;
  const double bound = schedule::error_bound(algorithm.format, schedule::rounding_of(algorithm, c.size).most);
  for (std::size_t begin = 0; begin < c.count; begin += block) {
    const std::size_t end = std::min(begin + block, c.count);
    double largest = 0;
    for (const Values& input : inputs) {
      float most = 0;
      for (std::size_t i = begin; i < end; ++i) most = std::max(most, std::abs(input[i]));
      largest += double{most};
    }
    for (std::size_t i = begin; i < end; ++i) {
      double exact = 0;
      for (const Values& input : inputs) exact += double{input[i]};
      ASSERT_NEAR(sums[i], exact, bound * largest + 1e-5 * largest) << c.algorithm << " of " << c.size << ", " << i;
    }
  }
}

TEST(Format, SumsWithinTheBoundTheSameOnAllRanksAndAgain) {
  for (const char* base : {"ordered", "ring", "rabenseifner", "recursive_doubling", "binomial", "double_binary_tree"}) {
    for (int format = 1; format < RODA_WIRE_FORMAT_COUNT; ++format) {
      for (const int size : {2, 3, 4}) {
        const std::string name = base + std::string("/") + roda_wire_formats[format].name;
        if (!schedule::find_algorithm(Collective::kAllreduce, name)->accepts(size)) continue;
        for (const std::size_t count : {1U, 1000U, 9001U}) {
          const Case c{name, size, count};
          const auto inputs = inputs_of(c);
          const Values sums = sum_of(c, tiny_options(), inputs);
          check_bound(c, inputs, sums);
          if (count < 9000) continue;
          EXPECT_EQ(sum_of(c, tiny_options(), inputs), sums) << name;
        }
      }
    }
  }
}

// A message is cut between blocks.
TEST(Format, BitsDoNotDependOnTheLengthOfMessages) {
  for (int format = 1; format < RODA_WIRE_FORMAT_COUNT; ++format) {
    for (const char* base : {"ordered", "ring", "rabenseifner"}) {
      const Case c{base + std::string("/") + roda_wire_formats[format].name, 3, 50'000};
      const auto inputs = inputs_of(c);
      const Values whole = sum_of(c, ExecuteOptions(), inputs);
      for (const std::size_t segment : {100U, 1500U, 4096U}) {
        ExecuteOptions options;
        options.segment_bytes = segment;
        EXPECT_EQ(std::memcmp(sum_of(c, options, inputs).data(), whole.data(), c.count * sizeof(float)), 0)
            << c.algorithm << ", " << segment;
      }
    }
  }
}

TEST(Format, DrawsAnewInEveryLaunch) {
  const Case first{"ordered/int8_stochastic", 2, 5000, 1}, second{"ordered/int8_stochastic", 2, 5000, 2};
  const auto inputs = inputs_of(first);
  EXPECT_NE(sum_of(first, ExecuteOptions(), inputs), sum_of(second, ExecuteOptions(), inputs));
}

TEST(Format, EncodesATensorOfManyAsIfItTravelledAlone) {
  const Values values = noise_of(0, 1280);
  const WireTensor all[] = {{0, 11}, {256, 12}, {1024, 13}};
  for (int format = 1; format < RODA_WIRE_FORMAT_COUNT; ++format) {
    std::string together(roda_wire_bytes(format, 1024), 'x'), apart = together;
    encode(format, together.data(), values.data() + 256, 1024, 256, {all, 3}, 5, 0);
    const WireTensor second{0, 12}, third{0, 13};
    encode(format, apart.data(), values.data() + 256, 768, 0, {&second, 1}, 5, 0);
    encode(format, apart.data() + roda_wire_bytes(format, 768), values.data() + 1024, 256, 0, {&third, 1}, 5, 0);
    EXPECT_EQ(together, apart) << roda_wire_formats[format].name;
  }
}

// Nothing is lost for good: what all steps came to, and what the ranks still keep back, is what all have contributed.
TEST(Format, ResidualsHoldWhatSumsLack) {
  constexpr std::size_t kCount = 3001, kBlocks = 3072;
  constexpr int kSteps = 5;
  for (const char* base : {"ordered", "ring", "rabenseifner", "binomial", "double_binary_tree", "recursive_doubling"}) {
    for (const int size : {2, 3, 4}) {
      const std::string name = base + std::string("/int4");
      const schedule::Algorithm& algorithm = *schedule::find_algorithm(Collective::kAllreduce, name);
      if (!algorithm.accepts(size) || !schedule::rounds_apart(algorithm, size)) continue;
      std::vector<double> missing(kCount);
      std::vector<Values> residuals(static_cast<std::size_t>(size), Values(kBlocks));
      run_world(size, tiny_options(), [&](Rank& self) {
        const Values input = noise_of(self.rank, kCount);
        Values output(kCount);
        const WireTensor tensor{0, 1, residuals[static_cast<std::size_t>(self.rank)].data()};
        for (int step = 1; step <= kSteps; ++step) {
          StageArgs args;
          args.count = kCount;
          args.launch = static_cast<std::uint64_t>(step);
          args.input = input.data();
          args.output = output.data();
          args.wire.tensors = {&tensor, 1};
          ASSERT_TRUE(self.run(name, args).ok());
          for (std::size_t i = 0; self.rank == 0 && i < kCount; ++i) missing[i] -= double{output[i]};
        }
      });
      double most = 0;
      for (std::size_t i = 0; i < kCount; ++i) {
        for (int rank = 0; rank < size; ++rank) missing[i] -= double{residuals[static_cast<std::size_t>(rank)][i]};
      }
      for (int rank = 0; rank < size; ++rank) {
        const Values input = noise_of(rank, kCount);
        for (std::size_t i = 0; i < kCount; ++i) missing[i] += kSteps * double{input[i]};
      }
      for (const double value : missing) most = std::max(most, std::abs(value));
      EXPECT_LT(most, 1e-3) << name << " of " << size;
      EXPECT_GT(std::ranges::max(residuals.back()), 0.01F) << name << " of " << size;
    }
  }
}

// What a step of larger values lost is added to the next as far as roundings of its own values may lose it; zeros go as
// such, and keep it for later.
TEST(Format, LossesOfLargerValuesAreDropped) {
  for (const std::int32_t format : {RODA_WIRE_INT8, RODA_WIRE_INT4}) {
    const auto error = static_cast<float>(roda_wire_formats[format].error);
    Values residual(256);
    const WireTensor tensor{0, 1, residual.data()};
    const auto off_by = [&](float scale) {
      Values values = noise_of(0, 256), decoded(256);
      const float largest = std::abs(std::ranges::max(values, {}, [](float value) { return std::abs(value); }));
      for (float& value : values) value *= scale / largest;
      std::string message(roda_wire_bytes(format, 256), 'x');
      encode(format, message.data(), values.data(), 256, 0, {&tensor, 1}, 5, 1);
      cpu::decode(format, decoded.data(), nullptr, message.data(), 256);
      float most = 0;
      for (std::size_t i = 0; i < 256; ++i) most = std::max(most, std::abs(decoded[i] - values[i]));
      return most;
    };
    EXPECT_LE(off_by(1000), 1000 * error);
    const float before = std::ranges::max(residual);
    EXPECT_EQ(off_by(0), 0);
    EXPECT_EQ(std::ranges::max(residual), before);
    EXPECT_LE(off_by(1), error * (3 + 2 * error)) << roda_wire_formats[format].name;
    EXPECT_LE(off_by(1), error * (3 + 2 * error));
  }
}

// One rank's overflow is told to all.
TEST(Format, HandsOnWhatIsNoNumber) {
  const Case c{"ring/int8", 3, 2000};
  auto inputs = inputs_of(c);
  inputs[1][700] = std::numeric_limits<float>::infinity();
  const Values sums = sum_of(c, tiny_options(), inputs);
  for (std::size_t i = 512; i < 768; ++i) ASSERT_TRUE(std::isnan(sums[i])) << i;
  for (std::size_t i = 0; i < 512; ++i) ASSERT_TRUE(std::isfinite(sums[i])) << i;
}

TEST(Format, IsRefusedForOtherDtypesAndOperations) {
  run_world(2, tiny_options(), [](Rank& self) {
    double data[4] = {};
    StageArgs args;
    args.input = args.output = data;
    args.count = 4;
    args.dtype = RODA_FLOAT64;
    const char* expected = "ring/int8 sums float32 in host memory, and nothing else";
    EXPECT_EQ(self.run("ring/int8", args).message(), expected);
    args.dtype = RODA_FLOAT32;
    args.op = RODA_MAX;
    EXPECT_EQ(self.run("ring/int8", args).message(), expected);
  });
}

}  // namespace
}  // namespace roda::execute::testing
