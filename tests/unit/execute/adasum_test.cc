// Adasum of random vectors over 1 to 16 ranks, against the recursion written down in double.
#include "core/execute/adasum/adasum_stage.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <span>

#include "plugins/devices/cpu/cpu_device.h"
#include "plugins/devices/cpu/kernels.h"
#include "tests/unit/execute/values.h"
#include "tests/unit/execute/world.h"

namespace roda::execute::testing {
namespace {

using Values = std::vector<double>;

Values combine(const Values& a, const Values& b) {
  const double dot = std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  const double aa = std::inner_product(a.begin(), a.end(), a.begin(), 0.0);
  const double bb = std::inner_product(b.begin(), b.end(), b.begin(), 0.0);
  const double weight_a = aa == 0 ? 1 : 1 - dot / (2 * aa);
  const double weight_b = bb == 0 ? 1 : 1 - dot / (2 * bb);
  Values out(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) out[i] = weight_a * a[i] + weight_b * b[i];
  return out;
}

// Of places [first, first + n); blocks of `averaged` are averaged.
Values reference(const std::vector<Values>& inputs, std::size_t first, std::size_t n, std::size_t averaged) {
  if (n == 1) return inputs[first];
  const Values low = reference(inputs, first, n / 2, averaged);
  const Values high = reference(inputs, first + n / 2, n / 2, averaged);
  if (n > averaged) return combine(low, high);
  Values mean(low.size());
  for (std::size_t i = 0; i < low.size(); ++i) mean[i] = (low[i] + high[i]) / 2;
  return mean;
}

// Tensors that differ in how alike the ranks' vectors are: none, much, opposite, zero on the odd ranks.
double element(int rank, std::size_t tensor, std::mt19937* random) {
  std::normal_distribution<double> noise(0, 1);
  const double own = noise(*random);
  switch (tensor % 4) {
    case 1:
      return 1 + 0.1 * own;
    case 2:
      return (rank % 2 == 0 ? 1 : -1) * (1 + 0.01 * own);
    case 3:
      return rank % 2 == 0 ? own : 0;
    default:
      return own;
  }
}

struct Case {
  int size = 2;
  int dtype = RODA_FLOAT32;
  std::vector<std::size_t> counts;  // of the tensors
  int averaged = 1;
  bool reversed = false;  // places run against ranks
};

double tolerance(int dtype) {
  if (dtype == RODA_FLOAT64) return 1e-12;
  if (dtype == RODA_FLOAT32) return 1e-5;
  return dtype == RODA_FLOAT16 ? 1e-2 : 8e-2;
}

void check(const Case& c) {
  const std::size_t count = std::accumulate(c.counts.begin(), c.counts.end(), std::size_t{0});
  std::vector<std::size_t> begins;
  for (std::size_t begin = 0; const std::size_t n : c.counts) {
    begins.push_back(begin);
    begin += n;
  }
  std::vector<Bytes> inputs;  // by rank, rounded to the dtype
  for (int rank = 0; rank < c.size; ++rank) {
    std::mt19937 random(static_cast<unsigned>(rank) * 7919u + 1);
    Values values;
    for (std::size_t t = 0; t < c.counts.size(); ++t) {
      for (std::size_t i = 0; i < c.counts[t]; ++i) values.push_back(element(rank, t, &random));
    }
    inputs.push_back(encode(values, c.dtype));
  }
  AdasumStage::Arrangement arrangement{std::vector<int>(static_cast<std::size_t>(c.size)), c.averaged};
  std::iota(arrangement.rank_at.begin(), arrangement.rank_at.end(), 0);
  if (c.reversed) std::reverse(arrangement.rank_at.begin(), arrangement.rank_at.end());
  std::vector<Bytes> outputs(static_cast<std::size_t>(c.size), Bytes(count * roda_dtype_size(c.dtype)));
  const ExecuteOptions options = tiny_options();
  run_world(c.size, options, [&](Rank& self) {
    const auto me = static_cast<std::size_t>(self.rank);
    AdasumStage stage(self.group, options, arrangement);
    for (int round = 0; round < 2; ++round) {
      StageArgs args;
      args.collective = RODA_ADASUM_ALLREDUCE;
      args.dtype = c.dtype;
      args.count = count;
      args.tensor_begins = begins.data();
      args.tensors = begins.size();
      args.input = inputs[me].data();
      args.output = outputs[me].data();
      args.launch = static_cast<std::uint64_t>(round + 1);
      // The second time in place.
      if (round == 1) {
        outputs[me] = inputs[me];
        args.input = outputs[me].data();
        args.output = outputs[me].data();
      }
      const Status started = stage.start(args);
      ASSERT_TRUE(started.ok()) << started.message();
      const Status status = self.finish(stage);
      ASSERT_TRUE(status.ok()) << status.message();
    }
  });
  for (const Bytes& output : outputs) EXPECT_EQ(output, outputs[0]);
  const Values result = decode(outputs[0], c.dtype);
  for (std::size_t t = 0; t < c.counts.size(); ++t) {
    std::vector<Values> tensor;
    for (const int rank : arrangement.rank_at) {
      const Values all = decode(inputs[static_cast<std::size_t>(rank)], c.dtype);
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(begins[t]);
      tensor.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(c.counts[t]));
    }
    const Values expected =
        reference(tensor, 0, static_cast<std::size_t>(c.size), static_cast<std::size_t>(c.averaged));
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

TEST(Adasum, BetweenHostsAlone) {
  check({4, RODA_FLOAT64, {100, 7, 250}, 2});
  check({8, RODA_FLOAT64, {100, 7, 250}, 2});
  check({8, RODA_FLOAT64, {100, 7, 250}, 4});
  check({4, RODA_FLOAT64, {99}, 4});
}

TEST(Adasum, PlacesNeedNotBeRanks) { check({4, RODA_FLOAT64, {100, 40}, 2, true}); }

TEST(Adasum, OtherDtypesAreRefused) {
  run_world(2, tiny_options(), [](Rank& self) {
    AdasumStage stage(self.group, tiny_options(), {{0, 1}, 1});
    StageArgs args;
    args.dtype = RODA_INT32;
    EXPECT_EQ(stage.start(args).code(), RODA_ERR_UNSUPPORTED);
  });
}

TEST(Adasum, AnAbortEndsItOnEveryRank) {
  const ExecuteOptions options = tiny_options();
  run_world(4, options, [&](Rank& self) {
    std::vector<float> data(5000, 1);
    const std::size_t begin = 0;
    AdasumStage stage(self.group, options, {{0, 1, 2, 3}, 1});
    StageArgs args;
    args.input = args.output = data.data();
    args.count = data.size();
    args.tensor_begins = &begin;
    args.tensors = 1;
    if (self.rank == 2) {
      self.group.abort(Status::peer(2, "rank 2 gave up"));
      return;
    }
    ASSERT_TRUE(stage.start(args).ok());
    const Status status = self.finish(stage);
    EXPECT_FALSE(status.ok());  // by the abort's words, or because a rank that heard of it has left the group
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
