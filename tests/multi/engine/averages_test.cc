// Averages that fit the dtype where the sum does not: of every dtype, alone and in groups, by every collective that has
// them, with ranks that have joined.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "plugins/devices/cpu/half.h"
#include "tests/multi/engine/whole_numbers.h"

namespace roda::test {
namespace {

using Shape = std::vector<std::int64_t>;

template <typename T>
roda_op averaging(int collective, const char* name, const Shape& shape, const std::vector<T>& input, void* output,
                  int dtype) {
  roda_op op = make_op(collective, name, shape, input.data(), output, dtype);
  op.op = RODA_AVERAGE;
  return op;
}

template <typename T>
void expect_allreduced(int dtype) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{7}, std::size_t{1000}, std::size_t{300'000}}) {
    const Shape shape{static_cast<std::int64_t>(count)};
    std::vector<T> input = values<T>(rank(), count), output(count);
    const std::string name = "apart" + std::to_string(dtype) + "." + std::to_string(count);
    Outcome o = run(averaging(RODA_ALLREDUCE, name.c_str(), shape, input, output.data(), dtype));
    ASSERT_EQ(o.code, RODA_OK) << o.message;
    EXPECT_EQ(output, averages<T>(size(), count)) << name;
    EXPECT_EQ(input, values<T>(rank(), count)) << "the input has changed";
    o = run(averaging(RODA_ALLREDUCE, (name + "in place").c_str(), shape, input, input.data(), dtype));
    ASSERT_EQ(o.code, RODA_OK) << o.message;
    EXPECT_EQ(input, output) << name;
  }
}

// Several travel as one.
template <typename T>
void expect_grouped(int collective, int dtype) {
  const auto rows = static_cast<std::size_t>(size()) * 3;
  std::vector<std::vector<T>> inputs, outputs;
  std::vector<roda_op> ops;
  const Shape shape{static_cast<std::int64_t>(rows)};
  for (std::size_t i = 0; i < 5; ++i) {
    inputs.push_back(values<T>(rank(), rows, i * 100));
    outputs.emplace_back(rows);
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < 5; ++i) names.push_back("group" + std::to_string(dtype) + "." + std::to_string(i));
  const bool scatters = collective == RODA_REDUCESCATTER;
  for (std::size_t i = 0; i < 5; ++i) {
    ops.push_back(
        averaging(collective, names[i].c_str(), shape, inputs[i], scatters ? nullptr : outputs[i].data(), dtype));
  }
  roda_handle handle = 0;
  ASSERT_EQ(submit(ops, &handle).code, RODA_OK);
  roda_error error{};
  error.struct_size = sizeof error;
  ASSERT_EQ(roda_wait(handle, &error), RODA_OK) << error.message;
  for (std::int32_t i = 0; i < 5; ++i) {
    const auto from = static_cast<std::size_t>(i) * 100;
    if (!scatters) {
      EXPECT_EQ(outputs[static_cast<std::size_t>(i)], averages<T>(size(), rows, from));
      continue;
    }
    roda_output output{};
    output.struct_size = sizeof output;
    ASSERT_EQ(roda_get_output(handle, i, &output, &error), RODA_OK) << error.message;
    const T* part = static_cast<const T*>(output.data);
    EXPECT_EQ(std::vector<T>(part, part + 3), averages<T>(size(), 3, from + static_cast<std::size_t>(rank()) * 3));
    roda_output_release(output.owner);
  }
  roda_release(handle);
}

template <typename T>
void expect_scattered_and_reduced(int dtype) {
  const std::size_t count = static_cast<std::size_t>(size()) * 50;
  const Shape shape{static_cast<std::int64_t>(count)};
  const std::vector<T> input = values<T>(rank(), count);
  const auto scattered = run_owned<T>(averaging(RODA_REDUCESCATTER, "part", shape, input, nullptr, dtype));
  ASSERT_EQ(scattered.outcome.code, RODA_OK) << scattered.outcome.message;
  EXPECT_EQ(scattered.values, averages<T>(size(), 50, static_cast<std::size_t>(rank()) * 50));
  for (int root = 0; root < size(); ++root) {
    std::vector<T> output(count);
    roda_op op = averaging(RODA_REDUCE, "whole", shape, input, rank() == root ? output.data() : nullptr, dtype);
    op.root = root;
    const Outcome o = run(op);
    ASSERT_EQ(o.code, RODA_OK) << o.message;
    EXPECT_EQ(output, rank() == root ? averages<T>(size(), count) : std::vector<T>(count));
  }
}

// The last rank has no more data: it counts as zeros, and is counted.
template <typename T>
void expect_joined(int dtype) {
  const Shape shape{100};
  if (rank() < size() - 1) {
    for (int i = 0; i < 2; ++i) {
      const std::vector<T> input = values<T>(rank(), 100);
      std::vector<T> output(100);
      const Outcome o = run(averaging(RODA_ALLREDUCE, "joined", shape, input, output.data(), dtype));
      ASSERT_EQ(o.code, RODA_OK) << o.message;
      EXPECT_EQ(output, averages<T>(size() - 1, 100));
    }
  }
  const Outcome o = run(make_op(RODA_JOIN, "", {}, nullptr, nullptr));
  ASSERT_EQ(o.code, RODA_OK) << o.message;
}

template <typename T>
void expect_factors(int dtype) {
  const std::vector<T> input{20, 40, static_cast<T>(rank() % 2 == 0 ? 3 : 4)};
  std::vector<T> output(3);
  const Shape shape{3};
  roda_op op = averaging(RODA_ALLREDUCE, "factors", shape, input, output.data(), dtype);
  op.prescale = 3;
  op.postscale = 0.5;
  const Outcome o = run(op);
  ASSERT_EQ(o.code, RODA_OK) << o.message;
  const int sum = 3 * (3 * ((size() + 1) / 2) + 4 * (size() / 2));
  EXPECT_EQ(output, (std::vector<T>{30, 60, static_cast<T>(0.5 * sum / size())}));
}

template <typename T>
void expect_exact(int dtype) {
  expect_allreduced<T>(dtype);
  expect_grouped<T>(RODA_ALLREDUCE, dtype);
  expect_grouped<T>(RODA_REDUCESCATTER, dtype);
  expect_scattered_and_reduced<T>(dtype);
  expect_joined<T>(dtype);
  expect_factors<T>(dtype);
}

TEST(Averages, OfWholeNumbersAreExact) {
  for_whole_numbers([]<typename T>(T, int dtype) { expect_exact<T>(dtype); });
}

// Numbers at which every sum and every average is exact: whole ones, large ones that only differ in sign.
TEST(Averages, OfHalvesStayInTheirRange) {
  const std::vector<float> numbers{60000, -60000, 65504, 1, 0, 0.5f};
  std::vector<std::uint16_t> input;
  for (const float number : numbers) input.push_back(cpu::f16_from_float(number));
  for (const int collective : {RODA_ALLREDUCE, RODA_REDUCE}) {
    std::vector<std::uint16_t> output(input.size());
    const Shape shape{static_cast<std::int64_t>(input.size())};
    roda_op op = averaging(collective, "halves", shape, input, output.data(), RODA_FLOAT16);
    if (collective == RODA_REDUCE && rank() != 0) op.output = nullptr;
    const Outcome o = run(op);
    ASSERT_EQ(o.code, RODA_OK) << o.message;
    if (op.output == nullptr) continue;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const float got = cpu::float_from_f16(output[i]);
      // Where the ranks are no power of two the sum is rounded, and the average.
      EXPECT_NEAR(got, numbers[i], std::abs(numbers[i]) * (size() == 3 ? 0x1p-9f : 0)) << i;
    }
  }
}

}  // namespace
}  // namespace roda::test
