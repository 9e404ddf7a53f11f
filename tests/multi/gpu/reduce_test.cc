// Reductions to a root of tensors on GPUs (the doubles of collectives_test.cc), natively, staged and composed.
#include <cstdlib>
#include <string>

#include "tests/multi/gpu/gpu_array.h"

namespace roda::test {
namespace {

using Shape = std::vector<std::int64_t>;

std::vector<float> of_ranks(std::size_t n, float factor) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = factor * static_cast<float>(i % 7 + 1);
  return values;
}

TEST(GpuReduce, ToEveryRootInPlaceAndNot) {
  const float ranks = static_cast<float>(size() * (size() + 1) / 2);
  for (int root = 0; root < size(); ++root) {
    const bool is_root = rank() == root;
    for (const std::size_t n : {std::size_t{1}, std::size_t{1001}, std::size_t{700'003}}) {
      const std::vector<float> mine = of_ranks(n, static_cast<float>(rank() + 1)), untouched(n, -1);
      const Shape shape{static_cast<std::int64_t>(n)};
      const auto in = on_gpu(mine), out = on_gpu(untouched);
      const std::string name = "reduce" + std::to_string(root) + "." + std::to_string(n);
      roda_op op = gpu_op(RODA_REDUCE, name, shape, in.data(), out.data());
      op.root = root;
      Outcome o = run_gpu(op);
      ASSERT_EQ(o.code, RODA_OK) << o.message;
      EXPECT_TRUE(out.read<float>() == (is_root ? of_ranks(n, ranks) : untouched)) << name;
      EXPECT_TRUE(in.read<float>() == mine) << name;
      op.output = const_cast<void*>(op.input);
      op.op = RODA_AVERAGE;
      op.prescale = 2;
      o = run_gpu(op);
      ASSERT_EQ(o.code, RODA_OK) << o.message;
      const std::vector<float> got = in.read<float>();
      const float factor = is_root ? 2 * ranks / static_cast<float>(size()) : static_cast<float>(rank() + 1);
      for (std::size_t i = 0; i < n; i += 97) ASSERT_FLOAT_EQ(got[i], factor * static_cast<float>(i % 7 + 1)) << name;
    }
  }
}

// The library behind the double has no 16-bit integers: they are staged, or refused where nothing else may carry them.
TEST(GpuReduce, OfWholeNumbers) {
  const std::vector<std::int16_t> mine(1001, static_cast<std::int16_t>(rank() + 1));
  const auto data = on_gpu(mine);
  roda_op op = gpu_op(RODA_REDUCE, "whole", {1001}, data.data(), data.data(), RODA_INT16);
  const Shape shape{1001};
  op.shape = shape.data();
  op.root = size() - 1;
  const char* named = std::getenv("HOROVOD_GPU_OPERATIONS");
  const Outcome o = run_gpu(op);
  if (named != nullptr && std::string(named) == "nccl") {
    EXPECT_EQ(o.code, RODA_ERR_UNSUPPORTED);
    EXPECT_NE(o.message.find("No Reduce operation enabled"), std::string::npos) << o.message;
    return;
  }
  ASSERT_EQ(o.code, RODA_OK) << o.message;
  const int sum = rank() == size() - 1 ? size() * (size() + 1) / 2 : rank() + 1;
  EXPECT_EQ(data.read<std::int16_t>(), std::vector<std::int16_t>(1001, static_cast<std::int16_t>(sum)));
}

}  // namespace
}  // namespace roda::test
