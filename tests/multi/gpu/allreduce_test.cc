// Allreduces of tensors on GPUs through the engine; every rank of a job runs these, in the same order. In tests/multi
// CUDA and NCCL are DOUBLES (tests/doubles): that proves our logic, and nothing about a GPU. tests/gpu/run.sh runs them
// on a card.
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "tests/multi/engine/whole_numbers.h"
#include "tests/multi/gpu/gpu_array.h"
#include "tests/multi/gpu/gpu_values.h"

namespace roda::test {
namespace {

TEST(GpuAllreduce, SumsAtEverySizeInPlaceAndNot) {
  for (const std::size_t n :
       {std::size_t{0}, std::size_t{1}, std::size_t{3}, std::size_t{1000}, std::size_t{300001}, large()}) {
    const Shape shape{static_cast<std::int64_t>(n)};
    const auto in = on_gpu(mine(n));
    const auto out = on_gpu(std::vector<float>(n, -1));
    const Outcome o = run_gpu(gpu_op(RODA_ALLREDUCE, "out" + std::to_string(n), shape, in.data(), out.data()));
    ASSERT_EQ(o.code, RODA_OK) << o.message;
    expect_sum(out.read<float>());
    EXPECT_EQ(in.read<float>(), mine(n)) << "the input is not touched";
    ASSERT_EQ(run_gpu(gpu_op(RODA_ALLREDUCE, "in" + std::to_string(n), shape, in.data(), in.data())).code, RODA_OK);
    expect_sum(in.read<float>());
  }
}

TEST(GpuAllreduce, AppliesOpsAndFactors) {
  const double n = size();
  double factorial = 1;
  for (int i = 2; i <= size(); ++i) factorial *= i;
  const double sum = n * (n + 1) / 2;
  const struct {
    int op;
    double pre, post, expected;
  } cases[] = {{RODA_AVERAGE, 1, 1, sum / n},   {RODA_MIN, 1, 1, 1},          {RODA_MAX, 1, 1, n},
               {RODA_PRODUCT, 1, 1, factorial}, {RODA_SUM, 2, 0.25, sum / 2}, {RODA_AVERAGE, 4, 0.5, 2 * sum / n}};
  for (const auto& c : cases) {
    const auto in = on_gpu(std::vector<double>(5, rank() + 1));
    const auto out = on_gpu(std::vector<double>(5));
    const Shape shape{5};
    roda_op op = gpu_op(RODA_ALLREDUCE, "op", shape, in.data(), out.data(), RODA_FLOAT64);
    op.op = c.op;
    op.prescale = c.pre;
    op.postscale = c.post;
    const Outcome o = run_gpu(op);
    ASSERT_EQ(o.code, RODA_OK) << o.message;
    for (const double x : out.read<double>()) EXPECT_DOUBLE_EQ(x, c.expected) << roda_reduce_op_name(c.op);
  }
}

template <typename T>
void sum_of(int dtype) {
  const Shape shape{1001};
  const auto data = on_gpu(std::vector<T>(1001, static_cast<T>(rank() + 1)));
  const std::string name = std::string("dtype ") + roda_dtype_name(dtype);
  const Outcome o = run_gpu(gpu_op(RODA_ALLREDUCE, name, shape, data.data(), data.data(), dtype));
  ASSERT_EQ(o.code, RODA_OK) << o.message;
  EXPECT_EQ(data.template read<T>(), std::vector<T>(1001, static_cast<T>(size() * (size() + 1) / 2))) << name;
}

// The library behind the double has no 16-bit integers: those are staged through host memory.
TEST(GpuAllreduce, TakesEveryDtype) {
  for_whole_numbers([]<typename T>(T, int dtype) { sum_of<T>(dtype); });
  sum_of<double>(RODA_FLOAT64);
}

TEST(GpuAllreduce, AveragesOfIntegersAreCutTowardsZero) {
  const Shape shape{2};
  const auto in = on_gpu(std::vector<std::int32_t>{rank() == 0 ? 3 : 0, rank() == 0 ? -3 : 0});
  roda_op op = gpu_op(RODA_ALLREDUCE, "int_average", shape, in.data(), in.data(), RODA_INT32);
  op.op = RODA_AVERAGE;
  ASSERT_EQ(run_gpu(op).code, RODA_OK);
  EXPECT_EQ(in.read<std::int32_t>(), (std::vector<std::int32_t>{3 / size(), -3 / size()}));
}

// As everywhere: the sum, rounded, is scaled, and not each rank's part before, whatever carries it.
TEST(GpuAllreduce, AveragesOf16BitFloatsAreScaledSums) {
  const auto bits = [](float value) {  // rounded to nearest, ties to even
    const auto all = std::bit_cast<std::uint32_t>(value);
    return static_cast<std::uint16_t>((all + 0x7fff + (all >> 16 & 1)) >> 16);
  };
  const Shape shape{100};
  const auto data = on_gpu(std::vector<std::uint16_t>(100, bits(static_cast<float>(1 << rank()))));
  roda_op op = gpu_op(RODA_ALLREDUCE, "half_average", shape, data.data(), data.data(), RODA_BFLOAT16);
  op.op = RODA_AVERAGE;
  const Outcome o = run_gpu(op);
  ASSERT_EQ(o.code, RODA_OK) << o.message;
  const float sum = static_cast<float>((1 << size()) - 1);
  EXPECT_EQ(data.read<std::uint16_t>(),
            std::vector<std::uint16_t>(100, bits(sum * (1.0f / static_cast<float>(size())))));
}

// The caller's thread has no context here, and the handle is the same for every GPU.
TEST(GpuAllreduce, TakesTheDefaultStreamOfItsGpu) {
  void* const default_stream = reinterpret_cast<void*>(1);
  const Shape shape{1000};
  const auto data = on_gpu(mine(1000));
  EXPECT_EQ(data.read<float>(), mine(1000)) << "it has its value";
  roda_op op = gpu_op(RODA_ALLREDUCE, "default_stream", shape, data.data(), data.data());
  op.stream = default_stream;
  roda_handle handle = 0;
  Outcome o = submit({op}, &handle);
  ASSERT_EQ(o.code, RODA_OK) << o.message;
  roda_error error{};
  error.struct_size = sizeof error;
  EXPECT_EQ(roda_wait_on_stream(handle, default_stream, &error), RODA_OK) << error.message;
  o = wait_on_stream(handle);
  expect_sum(data.read<float>());
}

// Fused among themselves, never across kinds of memory.
TEST(GpuAllreduce, ManyAtOnceSomeInHostMemory) {
  constexpr std::size_t kTensors = 90;
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<GpuArray>> gpu;
    std::vector<std::vector<float>> host;
    std::vector<roda_handle> handles(kTensors);
    host.reserve(kTensors);
    for (std::size_t t = 0; t < kTensors; ++t) {
      host.push_back(mine(t % 17 == 0 ? 100000 : 1 + t));
      const Shape shape{static_cast<std::int64_t>(host[t].size())};
      gpu.push_back(std::make_unique<GpuArray>(host[t].data(), host[t].size() * sizeof(float)));
      const std::string name = "many" + std::to_string(t);
      roda_op op = t % 3 == 0 ? make_op(RODA_ALLREDUCE, name, shape, host[t].data(), host[t].data())
                              : gpu_op(RODA_ALLREDUCE, name, shape, gpu[t]->data(), gpu[t]->data());
      op.op = RODA_AVERAGE;
      const Outcome o = submit({op}, &handles[t]);
      ASSERT_EQ(o.code, RODA_OK) << o.message;
    }
    for (std::size_t t = 0; t < kTensors; ++t) {
      const Outcome o = wait_on_stream(handles[t]);
      ASSERT_EQ(o.code, RODA_OK) << o.message;
      expect_sum(t % 3 == 0 ? host[t] : gpu[t]->read<float>(), 1.0f / static_cast<float>(size()));
    }
  }
}

// One value in all elements, as the bits of a dtype that the compiler doesn't have.
std::uint16_t half_bits(int value, int dtype) {
  if (dtype == RODA_BFLOAT16)
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);
  const int exponent = std::bit_width(static_cast<unsigned>(value)) - 1;
  return static_cast<std::uint16_t>((exponent + 15) << 10 | ((value << 10 >> exponent) & 0x3ff));
}

// Buckets of every dtype, large and small, on their way at once.
TEST(GpuAllreduce, EveryDtypeAtOnce) {
  const int dtypes[] = {RODA_UINT8, RODA_FLOAT16,  RODA_INT8,  RODA_FLOAT32,
                        RODA_INT32, RODA_BFLOAT16, RODA_INT64, RODA_FLOAT64};
  const auto filled = [](int value, int dtype, std::size_t count) {
    std::vector<char> bytes(count * roda_dtype_size(dtype));
    const auto fill = [&]<typename T>(T element) {
      for (std::size_t i = 0; i < count; ++i) std::memcpy(&bytes[i * sizeof element], &element, sizeof element);
    };
    if (dtype == RODA_FLOAT16 || dtype == RODA_BFLOAT16) fill(half_bits(value, dtype));
    if (dtype == RODA_UINT8 || dtype == RODA_INT8) fill(static_cast<std::int8_t>(value));
    if (dtype == RODA_INT32) fill(static_cast<std::int32_t>(value));
    if (dtype == RODA_INT64) fill(static_cast<std::int64_t>(value));
    if (dtype == RODA_FLOAT32) fill(static_cast<float>(value));
    if (dtype == RODA_FLOAT64) fill(static_cast<double>(value));
    return bytes;
  };
  for (int round = 0; round < 2; ++round) {
    std::vector<std::unique_ptr<GpuArray>> data;
    std::vector<roda_handle> handles;
    std::vector<std::vector<char>> sums;
    for (const std::size_t most : {std::size_t{70'001}, std::size_t{10}}) {
      for (const int dtype : dtypes) {
        const std::size_t count = most > 10 && dtype == RODA_FLOAT32 ? large() : most;
        const std::vector<char> own = filled(rank() + 1, dtype, count);
        sums.push_back(filled(size() * (size() + 1) / 2, dtype, count));
        data.push_back(std::make_unique<GpuArray>(own.data(), own.size()));
        const std::string name = "kind" + std::to_string(handles.size());
        handles.push_back(0);
        const Shape shape{static_cast<std::int64_t>(count)};
        const roda_op op = gpu_op(RODA_ALLREDUCE, name, shape, data.back()->data(), data.back()->data(), dtype);
        const Outcome o = submit({op}, &handles.back());
        ASSERT_EQ(o.code, RODA_OK) << o.message;
      }
    }
    for (std::size_t t = handles.size(); t-- > 0;) {
      const Outcome o = wait_on_stream(handles[t]);
      ASSERT_EQ(o.code, RODA_OK) << o.message;
      EXPECT_TRUE(data[t]->read<char>() == sums[t]) << t;
    }
  }
}

TEST(GpuAllreduce, GroupsWithFactors) {
  std::vector<std::unique_ptr<GpuArray>> data;
  std::vector<roda_op> ops;
  std::vector<std::string> names;
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < 20; ++i) {
    const std::vector<float> values = mine(10 * i + 1);
    data.push_back(std::make_unique<GpuArray>(values.data(), values.size() * sizeof(float)));
    names.push_back("group_" + std::to_string(i));
    shapes.push_back({static_cast<std::int64_t>(10 * i + 1)});
  }
  for (std::size_t i = 0; i < 20; ++i) {
    ops.push_back(gpu_op(RODA_ALLREDUCE, names[i], shapes[i], data[i]->data(), data[i]->data()));
    ops.back().prescale = 0.5;
    ops.back().postscale = 4;
  }
  roda_handle handle = 0;
  ASSERT_EQ(submit(ops, &handle).code, RODA_OK);
  const Outcome o = wait_on_stream(handle);
  ASSERT_EQ(o.code, RODA_OK) << o.message;
  for (const auto& d : data) expect_sum(d->read<float>(), 2);
}

// One process with tensors on two GPUs.
TEST(GpuAllreduce, OnEitherGpuOfARank) {
  if (std::getenv("GPU_TEST_GPU") != nullptr) GTEST_SKIP() << "there is one GPU";
  for (const int other : {0, 1, 0}) {
    const std::int32_t gpu = size() * other + rank();
    const auto data = on_gpu(mine(1000), gpu);
    const Shape shape{1000};
    const std::string name = "gpu" + std::to_string(other);
    const Outcome o = run_gpu(gpu_op(RODA_ALLREDUCE, name, shape, data.data(), data.data(), RODA_FLOAT32, gpu), gpu);
    ASSERT_EQ(o.code, RODA_OK) << o.message;
    expect_sum(data.read<float>());
  }
}

}  // namespace
}  // namespace roda::test
