// Adasum of random vectors over 1 to 16 ranks, against the recursion written down in double.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include "plugins/devices/cpu/cpu_device.h"
#include "plugins/devices/cpu/kernels.h"
#include "tests/unit/execute/adasum_values.h"
#include "tests/unit/execute/values.h"
#include "tests/unit/execute/world.h"

namespace roda::execute::testing {
namespace {

struct Case {
  int size = 2;
  int dtype = RODA_FLOAT32;
  std::vector<std::size_t> counts;  // of the tensors
};

double tolerance(int dtype) {
  if (dtype == RODA_FLOAT64) return 1e-12;
  if (dtype == RODA_FLOAT32) return 1e-5;
  return dtype == RODA_FLOAT16 ? 1e-2 : 8e-2;
}

void check(const Case& c) {
  const std::vector<std::size_t> begins = begins_of(c.counts);
  std::vector<Bytes> inputs;  // by rank, rounded to the dtype
  for (int rank = 0; rank < c.size; ++rank) inputs.push_back(encode(adasum_input(rank, c.counts), c.dtype));
  std::vector<Bytes> outputs(inputs.size(), Bytes(inputs[0].size()));
  run_world(c.size, tiny_options(), [&](Rank& self) {
    const auto me = static_cast<std::size_t>(self.rank);
    for (int round = 0; round < 2; ++round) {
      StageArgs args;
      args.collective = RODA_ADASUM_ALLREDUCE;
      args.dtype = c.dtype;
      args.count = inputs[me].size() / roda_dtype_size(c.dtype);
      args.tensor_begins = begins.data();
      args.tensors = begins.size();
      args.input = inputs[me].data();
      args.output = outputs[me].data();
      args.launch = static_cast<std::uint64_t>(round + 1);
      // The second time in place.
      if (round == 1) outputs[me] = inputs[me];
      if (round == 1) args.input = outputs[me].data();
      const Status status = self.run("vector_halving", args);
      ASSERT_TRUE(status.ok()) << status.message();
    }
  });
  for (const Bytes& output : outputs) EXPECT_EQ(output, outputs[0]);
  const Values result = decode(outputs[0], c.dtype);
  for (std::size_t t = 0; t < c.counts.size(); ++t) {
    std::vector<Values> tensor;
    for (const Bytes& input : inputs) tensor.push_back(part_of(decode(input, c.dtype), begins[t], c.counts[t]));
    const Values expected = adasum_of(tensor, 0, inputs.size());
    for (std::size_t i = 0; i < c.counts[t]; ++i) {
      const double error = std::abs(result[begins[t] + i] - expected[i]);
      ASSERT_LE(error, tolerance(c.dtype) * (1 + std::abs(expected[i])))
          << roda_dtype_name(c.dtype) << ", " << c.size << " ranks, tensor " << t << ", element " << i;
    }
  }
}

TEST(Adasum, OneTensorOnEveryPowerOfTwo) {
  for (const int size : {1, 2, 4, 8, 16}) {
    for (const std::size_t count : {1u, 3u, 64u, 1001u}) check({size, RODA_FLOAT32, {count}});
  }
}

TEST(Adasum, EveryDtype) {
  for (const int dtype : {RODA_FLOAT16, RODA_BFLOAT16, RODA_FLOAT32, RODA_FLOAT64}) check({4, dtype, {300, 300, 300}});
}

TEST(Adasum, EveryTensorOfABucketHasItsOwnWeights) {
  std::mt19937 random(5);
  for (const int size : {2, 4, 8}) {
    for (int round = 0; round < 5; ++round) {
      std::vector<std::size_t> counts;
      for (int t = 0; t < 6; ++t) counts.push_back(random() % 5 == 0 ? 0 : 1 + random() % 400);
      check({size, RODA_FLOAT64, counts});
    }
  }
}

TEST(Adasum, OtherDtypesAndNumbersOfRanksAreRefused) {
  for (const int size : {2, 3}) {
    run_world(size, tiny_options(), [&](Rank& self) {
      StageArgs args;
      args.collective = RODA_ADASUM_ALLREDUCE;
      args.dtype = size == 2 ? RODA_INT32 : RODA_FLOAT32;
      EXPECT_EQ(self.run("vector_halving", args).code(), RODA_ERR_UNSUPPORTED);
    });
  }
}

TEST(Adasum, AnAbortEndsItOnEveryRank) {
  run_world(4, tiny_options(), [&](Rank& self) {
    std::vector<float> data(5000, 1);
    const std::size_t begin = 0;
    StageArgs args;
    args.collective = RODA_ADASUM_ALLREDUCE;
    args.input = args.output = data.data();
    args.count = data.size();
    args.tensor_begins = &begin;
    args.tensors = 1;
    if (self.rank == 2) {
      self.group.abort(Status::peer(2, "rank 2 gave up"));
      return;
    }
    // By the abort's words, or because a rank that heard of it has left the group.
    EXPECT_FALSE(self.run("vector_halving", args).ok());
  });
}

// Every instruction set comes to the same bits.
TEST(AdasumKernels, AgreeOnEveryProcessor) {
  std::mt19937 random(3);
  std::normal_distribution<double> noise(0, 1);
  for (const int dtype : {RODA_FLOAT16, RODA_BFLOAT16, RODA_FLOAT32, RODA_FLOAT64}) {
    for (const std::size_t count : {1u, 8u, 511u, 1300u}) {
      Values a(count), b(count);
      for (std::size_t i = 0; i < count; ++i) {
        a[i] = noise(random);
        b[i] = noise(random);
      }
      const Bytes first = encode(a, dtype), second = encode(b, dtype);
      std::vector<Values> sums;
      std::vector<Bytes> results;
      for (const cpu::Kernels* set : cpu::usable_kernels()) {
        Values s(3);
        set->dots[dtype](first.data(), second.data(), count, s.data());
        sums.push_back(s);
        Bytes result(first.size());
        set->weigh[dtype](result.data(), first.data(), second.data(), count, 0.75, 0.3);
        results.push_back(result);
      }
      for (const Values& s : sums) EXPECT_EQ(s, sums[0]) << roda_dtype_name(dtype);
      for (const Bytes& r : results) EXPECT_EQ(r, results[0]) << roda_dtype_name(dtype);
      const Values x = decode(first, dtype), y = decode(second, dtype);
      EXPECT_NEAR(sums[0][0], std::inner_product(x.begin(), x.end(), y.begin(), 0.0), 1e-9 * count);
      EXPECT_NEAR(sums[0][1], std::inner_product(x.begin(), x.end(), x.begin(), 0.0), 1e-9 * count);
    }
  }
}

}  // namespace
}  // namespace roda::execute::testing
