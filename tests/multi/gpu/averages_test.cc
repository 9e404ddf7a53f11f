// Averages of whole numbers on GPUs (the doubles of allreduce_test.cc) that fit the dtype where the sum does not.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/multi/engine/whole_numbers.h"
#include "tests/multi/gpu/gpu_array.h"

namespace roda::test {
namespace {

using Shape = std::vector<std::int64_t>;

roda_op averaging(int collective, const std::string& name, const Shape& shape, const GpuArray& data, int dtype) {
  roda_op op = gpu_op(collective, name, shape, data.data(), data.data(), dtype);
  op.op = RODA_AVERAGE;
  return op;
}

template <typename T>
void expect_allreduced(int dtype) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{5001}}) {
    const Shape shape{static_cast<std::int64_t>(count)};
    const auto in = on_gpu(values<T>(rank(), count)), out = on_gpu(std::vector<T>(count));
    const std::string name = "apart" + std::to_string(dtype) + "." + std::to_string(count);
    roda_op op = averaging(RODA_ALLREDUCE, name, shape, out, dtype);
    op.input = in.data();
    const Outcome o = run_gpu(op);
    ASSERT_EQ(o.code, RODA_OK) << o.message;
    EXPECT_EQ(out.template read<T>(), averages<T>(size(), count)) << name;
    EXPECT_EQ(in.template read<T>(), values<T>(rank(), count)) << name << ": the input has changed";
  }
}

// Several travel as one, in place.
template <typename T>
void expect_grouped(int dtype) {
  const Shape shape{300};
  std::vector<std::unique_ptr<GpuArray>> data;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < 4; ++i) {
    const std::vector<T> own = values<T>(rank(), 300, i * 100);
    data.push_back(std::make_unique<GpuArray>(own.data(), own.size() * sizeof(T)));
    names.push_back("group" + std::to_string(dtype) + "." + std::to_string(i));
  }
  std::vector<roda_op> ops;
  for (std::size_t i = 0; i < 4; ++i) ops.push_back(averaging(RODA_ALLREDUCE, names[i], shape, *data[i], dtype));
  roda_handle handle = 0;
  ASSERT_EQ(submit(ops, &handle).code, RODA_OK);
  const Outcome o = wait_on_stream(handle);
  ASSERT_EQ(o.code, RODA_OK) << o.message;
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(data[i]->read<T>(), averages<T>(size(), 300, i * 100)) << names[i];
}

template <typename T>
void expect_scattered_and_reduced(int dtype) {
  const std::size_t rows = 50, count = rows * static_cast<std::size_t>(size());
  const Shape shape{static_cast<std::int64_t>(count)};
  const auto data = on_gpu(values<T>(rank(), count)), part = on_gpu(std::vector<T>(rows));
  const std::string names[] = {"part" + std::to_string(dtype), "whole" + std::to_string(dtype)};
  roda_op op = averaging(RODA_REDUCESCATTER, names[0], shape, data, dtype);
  op.output = part.data();
  Outcome o = run_gpu(op);
  ASSERT_EQ(o.code, RODA_OK) << o.message;
  EXPECT_EQ(part.template read<T>(), averages<T>(size(), rows, static_cast<std::size_t>(rank()) * rows));
  op = averaging(RODA_REDUCE, names[1], shape, data, dtype);
  op.root = size() - 1;
  o = run_gpu(op);
  ASSERT_EQ(o.code, RODA_OK) << o.message;
  EXPECT_EQ(data.template read<T>(), rank() == op.root ? averages<T>(size(), count) : values<T>(rank(), count));
}

template <typename T>
void expect_exact(int dtype) {
  expect_allreduced<T>(dtype);
  expect_grouped<T>(dtype);
  expect_scattered_and_reduced<T>(dtype);
}

TEST(GpuAverages, OfWholeNumbersAreExact) {
  for_whole_numbers([]<typename T>(T, int dtype) { expect_exact<T>(dtype); });
}

TEST(GpuAverages, OfWholeNumbersAreScaledBeforeTheyAreCutOff) {
  const Shape shape{3};
  const std::string name = "factors";
  const auto data = on_gpu(std::vector<std::int8_t>{20, -40, static_cast<std::int8_t>(rank() % 2 == 0 ? 3 : 4)});
  roda_op op = averaging(RODA_ALLREDUCE, name, shape, data, RODA_INT8);
  op.prescale = 3;
  op.postscale = 0.5;
  const Outcome o = run_gpu(op);
  ASSERT_EQ(o.code, RODA_OK) << o.message;
  const int sum = 3 * (3 * ((size() + 1) / 2) + 4 * (size() / 2));
  EXPECT_EQ(data.read<std::int8_t>(),
            (std::vector<std::int8_t>{30, -60, static_cast<std::int8_t>(0.5 * sum / size())}));
}

}  // namespace
}  // namespace roda::test
