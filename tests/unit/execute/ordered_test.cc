// Reductions that say of themselves that they go by rank order come to the very bits of the sum from rank 0 to the
// last.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "algorithms/schedule/schedule.h"
#include "plugins/devices/cpu/cpu_device.h"
#include "tests/unit/execute/values.h"
#include "tests/unit/execute/world.h"

namespace roda::execute::testing {
namespace {

using schedule::Collective;

Bytes noise_of(int rank, std::size_t count, int dtype) {
  std::mt19937 random(static_cast<unsigned>(rank) + 11);
  std::normal_distribution<double> noise(0, 1);
  std::vector<double> all(count);
  for (double& v : all) v = noise(random);
  return encode(all, dtype);
}

void check(const schedule::Algorithm& algorithm, int size, int dtype, std::size_t count) {
  std::vector<Bytes> inputs;
  std::vector<const void*> sources;
  for (int r = 0; r < size; ++r) inputs.push_back(noise_of(r, count, dtype));
  for (const Bytes& b : inputs) sources.push_back(b.data());
  Bytes total(inputs[0].size());
  cpu::reduce_many(total.data(), sources.data(), size, count, dtype, RODA_SUM);
  const bool scatters = algorithm.collective == Collective::kReduceScatter;
  std::vector<std::size_t> counts, begins;
  for (std::size_t r = 0, begin = 0; r < static_cast<std::size_t>(size); ++r) {
    const auto n = static_cast<std::size_t>(size);
    counts.push_back(count / n + (r < count % n ? 1 : 0));
    begins.push_back(begin);
    begin += counts.back();
  }
  run_world(size, tiny_options(), [&](Rank& self) {
    const auto me = static_cast<std::size_t>(self.rank);
    const std::size_t element = roda_dtype_size(dtype);
    Bytes output = scatters ? Bytes(counts[me] * element) : inputs[me];
    StageArgs args;
    args.collective = static_cast<int>(algorithm.collective);
    args.dtype = dtype;
    args.count = count;
    args.recv_counts = counts.data();
    args.input = scatters ? inputs[me].data() : output.data();
    args.output = output.data();
    args.root = size / 2;
    const bool has_result = !schedule::is_for_root(algorithm.collective) || self.rank == args.root;
    const Status status = self.run(algorithm.name, args);
    ASSERT_TRUE(status.ok()) << status.message();
    if (!has_result) return;
    const unsigned char* expected = total.data() + (scatters ? begins[me] * element : 0);
    EXPECT_TRUE(output.empty() || std::memcmp(output.data(), expected, output.size()) == 0)
        << algorithm.name << ", " << size << " ranks, " << roda_dtype_name(dtype) << ", " << count;
  });
}

TEST(InRankOrder, GivesTheBitsOfOneSum) {
  int found = 0;
  for (const schedule::Algorithm* algorithm : schedule::algorithms()) {
    if (!algorithm->in_rank_order) continue;
    ++found;
    for (const int size : {1, 2, 3, 5, 8}) {
      for (const int dtype : {RODA_FLOAT16, RODA_BFLOAT16, RODA_FLOAT32, RODA_FLOAT64}) {
        for (const std::size_t count : {1u, 9u, 700u}) check(*algorithm, size, dtype, count);
      }
    }
  }
  EXPECT_EQ(found, 6);
}

}  // namespace
}  // namespace roda::execute::testing
