// Collectives on GPUs that are composed of parts inside hosts and parts between them, against the same collectives on
// host memory, bit by bit. CUDA and NCCL are DOUBLES (tests/doubles): this proves our logic, and nothing about a GPU.
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>

#include "tests/multi/gpu/gpu_array.h"

namespace roda::test {
namespace {

using Shape = std::vector<std::int64_t>;
using Bytes = std::vector<char>;

// Any bits; the same stream of them on every rank, begun elsewhere.
Bytes random_bytes(std::size_t bytes, unsigned seed) {
  std::mt19937 generator(seed * 1000 + static_cast<unsigned>(rank()));
  Bytes data(bytes);
  for (char& byte : data) byte = static_cast<char>(generator());
  return data;
}

// Whole numbers, whose sums are the same bits in any order.
Bytes whole_floats(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed * 1000 + static_cast<unsigned>(rank()));
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(static_cast<int>(generator() % 2001) - 1000);
  Bytes data(count * sizeof(float));
  if (!data.empty()) std::memcpy(data.data(), values.data(), data.size());
  return data;
}

// What the engine owns after the handle is done, as bytes; empty after an error, which is told.
Bytes take(roda_handle handle, int index, std::size_t element, bool on_gpu) {
  roda_error error{};
  error.struct_size = sizeof error;
  const int code = on_gpu ? roda_wait_on_stream(handle, own_stream(own_gpu()), &error) : roda_wait(handle, &error);
  EXPECT_EQ(code, RODA_OK) << error.message;
  if (code != RODA_OK) return {};
  roda_output output{};
  output.struct_size = sizeof output;
  EXPECT_EQ(roda_get_output(handle, index, &output, &error), RODA_OK) << error.message;
  const std::int64_t count =
      std::accumulate(output.shape, output.shape + output.ndim, std::int64_t{1}, std::multiplies<>());
  Bytes data(static_cast<std::size_t>(count) * element);
  if (!data.empty() && on_gpu) read_gpu(output.data, data.size(), own_gpu(), data.data());
  if (!data.empty() && !on_gpu) std::memcpy(data.data(), output.data, data.size());
  roda_output_release(output.owner);
  return data;
}

// The collective on a GPU and in host memory; `splits` for alltoall.
void expect_equal(int collective, const std::string& name, Bytes data, const Shape& shape, int dtype, int op,
                  const std::vector<std::int32_t>& splits = {}) {
  const auto gpu = on_gpu(data);
  Bytes results[2];
  for (const bool is_gpu : {true, false}) {
    const std::string own = name + (is_gpu ? " on a GPU" : " in host memory");
    roda_op asked = is_gpu ? gpu_op(collective, own, shape, gpu.data(), nullptr, dtype)
                           : make_op(collective, own, shape, data.data(), nullptr, dtype);
    asked.op = op;
    asked.splits = splits.empty() ? nullptr : splits.data();
    asked.num_splits = static_cast<int>(splits.size());
    roda_handle handle = 0;
    const Outcome o = submit({asked}, &handle);
    ASSERT_EQ(o.code, RODA_OK) << o.message;
    results[is_gpu ? 0 : 1] = take(handle, 0, roda_dtype_size(dtype), is_gpu);
    roda_release(handle);
  }
  ASSERT_FALSE(::testing::Test::HasFailure()) << name;
  EXPECT_TRUE(results[0] == results[1]) << name;
}

// Nothing, less than a line, odd, several pieces.
constexpr std::int64_t kRows[] = {0, 1, 5, 1001, 400'000};

TEST(GpuComposed, AllgathersHaveTheBitsOfHostMemory) {
  unsigned seed = 1;
  for (const std::int64_t rows : kRows) {
    const std::int64_t own = rows < 2 ? rows : rows + rank() - rows / 3 * (rank() % 2);
    const Shape shape{own, 3};
    const Bytes data = random_bytes(static_cast<std::size_t>(own * 3) * 8, ++seed);
    expect_equal(RODA_ALLGATHER, "gather " + std::to_string(rows), data, shape, RODA_INT64, RODA_SUM);
  }
  // Only the last rank has something.
  const Shape shape{rank() == size() - 1 ? 77 : 0, 1};
  const Bytes data = random_bytes(static_cast<std::size_t>(shape[0]) * 2, ++seed);
  expect_equal(RODA_ALLGATHER, "one gives", data, shape, RODA_INT16, RODA_SUM);
}

TEST(GpuComposed, ReduceScattersHaveTheBitsOfHostMemory) {
  unsigned seed = 1;
  for (const std::int64_t rows : kRows) {
    const Shape shape{rows, 7};
    expect_equal(RODA_REDUCESCATTER, "scatter " + std::to_string(rows),
                 whole_floats(static_cast<std::size_t>(rows * 7), ++seed), shape, RODA_FLOAT32, RODA_SUM);
  }
}

TEST(GpuComposed, AveragesOfReduceScattersAreThoseOfHostMemory) {
  const Shape shape{1003};
  expect_equal(RODA_REDUCESCATTER, "average", whole_floats(1003, 3), shape, RODA_FLOAT32, RODA_AVERAGE);
}

TEST(GpuComposed, AlltoallsHaveTheBitsOfHostMemory) {
  unsigned seed = 1;
  for (const std::int64_t rows : kRows) {
    std::vector<std::int32_t> splits;
    for (int to = 0; to < size(); ++to) {
      splits.push_back(static_cast<std::int32_t>((rank() + to) % 3 == 0 ? 0 : rows / size() + to));
    }
    const Shape shape{std::accumulate(splits.begin(), splits.end(), std::int64_t{0}), 2};
    const Bytes data = random_bytes(static_cast<std::size_t>(shape[0] * 2) * 4, ++seed);
    expect_equal(RODA_ALLTOALL, "all " + std::to_string(rows), data, shape, RODA_FLOAT32, RODA_SUM, splits);
  }
}

// Several at once, of changing sizes: rooms grow while others are in use.
TEST(GpuComposed, ManyAtOnce) {
  constexpr std::size_t kTensors = 12;
  for (int round = 0; round < 3; ++round) {
    std::vector<Bytes> data;
    std::vector<std::unique_ptr<GpuArray>> arrays;
    std::vector<roda_handle> handles(kTensors);
    for (std::size_t t = 0; t < kTensors; ++t) {
      const std::int64_t rows = static_cast<std::int64_t>((t % 4 + 1) * 20'000) + rank();
      data.emplace_back(static_cast<std::size_t>(rows) * 4, static_cast<char>(rank() * 20 + static_cast<int>(t)));
      arrays.push_back(std::make_unique<GpuArray>(data[t].data(), data[t].size()));
      const Shape shape{rows};
      const std::string name = "many" + std::to_string(t);
      ASSERT_EQ(submit({gpu_op(RODA_ALLGATHER, name, shape, arrays[t]->data(), nullptr)}, &handles[t]).code, RODA_OK);
    }
    for (std::size_t t = 0; t < kTensors; ++t) {
      Bytes expected;
      for (int r = 0; r < size(); ++r) {
        const std::size_t rows = (t % 4 + 1) * 20'000 + static_cast<std::size_t>(r);
        expected.insert(expected.end(), rows * 4, static_cast<char>(r * 20 + static_cast<int>(t)));
      }
      EXPECT_TRUE(take(handles[t], 0, 4, true) == expected) << t;
      roda_release(handles[t]);
    }
  }
}

// GPU_TEST_PLANS: "COLLECTIVE=TEXT;COLLECTIVE=TEXT", what runs for tensors of 64 MiB.
TEST(GpuComposed, PlansAreAsTheSettingsSay) {
  std::string wanted = std::getenv("GPU_TEST_PLANS");
  const std::pair<const char*, int> collectives[] = {
      {"allgather", RODA_ALLGATHER}, {"reducescatter", RODA_REDUCESCATTER}, {"alltoall", RODA_ALLTOALL}};
  for (const auto& [name, collective] : collectives) {
    const std::size_t at = wanted.find(std::string(name) + "=");
    ASSERT_NE(at, std::string::npos) << name;
    const std::size_t begin = wanted.find('=', at) + 1;
    const std::string expected = wanted.substr(begin, wanted.find(';', begin) - begin);
    roda_error error{};
    error.struct_size = sizeof error;
    const std::unique_ptr<char, void (*)(char*)> text(
        roda_explain_memory("cuda", nullptr, collective, 64 << 20, 0, 0, &error), roda_free_text);
    ASSERT_NE(text, nullptr) << error.message;
    const std::string plans = text.get();
    const std::string runs = plans.substr(plans.find("> "), plans.find("in reserve") - plans.find("> "));
    EXPECT_NE(runs.find(expected), std::string::npos) << plans;
  }
}

}  // namespace
}  // namespace roda::test
