// Every dtype and op, averages and factors, tensors without elements and without dimensions.
#include <cmath>
#include <cstring>
#include <numeric>

#include "tests/multi/engine/rank.h"
#include "tests/unit/execute/values.h"

namespace roda::test {
namespace {

using execute::testing::Bytes;
using execute::testing::decode;
using execute::testing::encode;
using Shape = std::vector<std::int64_t>;

// Runs them together, so that tensors of many kinds wait in one queue.
struct Batch {
  std::vector<std::string> names;
  std::vector<Shape> shapes;
  std::vector<Bytes> inputs, outputs;
  std::vector<roda_op> ops;

  explicit Batch(std::size_t most) {
    names.reserve(most);
    shapes.reserve(most);
    inputs.reserve(most);
    outputs.reserve(most);
  }

  roda_op& add(int collective, const std::string& name, const Shape& shape, const Bytes& input, int dtype) {
    names.push_back(name);
    shapes.push_back(shape);
    inputs.push_back(input);
    outputs.emplace_back(input.size());
    // Never null, as an empty vector's would be.
    static char nothing = 0;
    void* in = input.empty() ? &nothing : static_cast<void*>(inputs.back().data());
    void* out = input.empty() ? &nothing : static_cast<void*>(outputs.back().data());
    ops.push_back(make_op(collective, names.back(), shapes.back(), in, out, dtype));
    return ops.back();
  }

  void run() {
    std::vector<roda_handle> handles(ops.size());
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const Outcome o = submit({ops[i]}, &handles[i]);
      ASSERT_EQ(o.code, RODA_OK) << names[i] << ": " << o.message;
    }
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const Outcome o = wait(handles[i]);
      ASSERT_EQ(o.code, RODA_OK) << names[i] << ": " << o.message;
    }
  }
};

TEST(Dtypes, EveryOneByEveryOpAndOfEverySize) {
  Batch batch(400);
  for (int dtype = 0; dtype < RODA_DTYPE_COUNT; ++dtype) {
    if (roda_dtype_is(dtype, RODA_REDUCES) == 0) continue;
    for (const int op : {RODA_SUM, RODA_MIN, RODA_MAX, RODA_PRODUCT}) {
      for (const Shape& shape : {Shape{}, Shape{0}, Shape{3, 0, 2}, Shape{7}, Shape{999}}) {
        const std::size_t count = static_cast<std::size_t>(
            std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<std::int64_t>()));
        const std::string name =
            "t" + std::to_string(dtype) + "." + std::to_string(op) + "." + std::to_string(batch.ops.size());
        batch.add(RODA_ALLREDUCE, name, shape, encode(execute::testing::values(rank(), count, op), dtype), dtype).op =
            op;
      }
    }
  }
  batch.run();
  for (std::size_t i = 0; i < batch.ops.size(); ++i) {
    const std::size_t count = batch.outputs[i].size() / roda_dtype_size(batch.ops[i].dtype);
    ASSERT_EQ(batch.outputs[i], execute::testing::expected(size(), count, batch.ops[i].dtype, batch.ops[i].op))
        << batch.names[i];
  }
}

// Float8 travels (MoveUnchanged); a reduction of it ends on every rank with the dtype, the op and the way out.
TEST(Dtypes, WithoutArithmeticAreNotReduced) {
  std::uint8_t data[8] = {};
  for (int dtype = 0; dtype < RODA_DTYPE_COUNT; ++dtype) {
    if (roda_dtype_is(dtype, RODA_REDUCES) != 0) continue;
    for (const int collective : {RODA_ALLREDUCE, RODA_REDUCESCATTER, RODA_REDUCE}) {
      const Outcome o = run(make_op(collective, "refused", {8}, data, data, dtype));
      EXPECT_EQ(o.code, RODA_ERR_INVALID);
      for (const char* part : {roda_collective_of(collective)->title, roda_dtype_name(dtype), "'refused'", "op sum",
                               "Convert the tensor to"}) {
        EXPECT_NE(o.message.find(part), std::string::npos) << o.message;
      }
    }
  }
}

// Whole numbers are truncated toward zero; 16-bit floats are exact here.
TEST(Dtypes, AveragesAndFactors) {
  Batch batch(100);
  const std::vector<double> mine{1.0 + rank(), -1.0 - rank(), 3, 0};
  const double sum = size() * (size() + 1) / 2;
  for (int dtype = 0; dtype < RODA_BOOL; ++dtype) {
    const bool is_unsigned = dtype == RODA_UINT8 || dtype == RODA_UINT16;
    std::vector<double> input = mine;
    if (is_unsigned) input[1] = 2;
    const Shape shape{4};
    batch.add(RODA_ALLREDUCE, "average" + std::to_string(dtype), shape, encode(input, dtype), dtype).op = RODA_AVERAGE;
    roda_op& scaled = batch.add(RODA_ALLREDUCE, "scaled" + std::to_string(dtype), shape, encode(input, dtype), dtype);
    scaled.prescale = 2;
    scaled.postscale = 0.5;
    batch.add(RODA_ALLREDUCE, "half" + std::to_string(dtype), shape, encode(input, dtype), dtype).prescale = 0.5;
  }
  batch.run();
  for (std::size_t i = 0; i < batch.ops.size(); ++i) {
    const int dtype = batch.ops[i].dtype;
    const bool is_unsigned = dtype == RODA_UINT8 || dtype == RODA_UINT16;
    const bool is_whole = dtype <= RODA_INT64;
    std::vector<double> sums{sum, is_unsigned ? 2.0 * size() : -sum, 3.0 * size(), 0};
    if (batch.ops[i].op == RODA_AVERAGE) {
      for (double& x : sums) x = is_whole ? std::trunc(x / size()) : x / size();
    } else if (batch.ops[i].prescale == 0.5) {
      // Before the sum: every rank's own value is truncated.
      double first = 0;
      for (int r = 0; r < size(); ++r) first += is_whole ? std::trunc((1.0 + r) / 2) : (1.0 + r) / 2;
      sums = {first, is_unsigned ? 1.0 * size() : -first, (is_whole ? 1 : 1.5) * size(), 0};
    }
    const std::vector<double> result = decode(batch.outputs[i], dtype);
    for (std::size_t k = 0; k < sums.size(); ++k) EXPECT_NEAR(result[k], sums[k], 1e-2) << batch.names[i];
  }
}

TEST(Dtypes, MoveUnchanged) {
  Batch told(RODA_DTYPE_COUNT * 3);
  for (int dtype = 0; dtype < RODA_DTYPE_COUNT; ++dtype) {
    for (const Shape& shape : {Shape{}, Shape{0, 4}, Shape{5}}) {
      const std::size_t count =
          shape.empty() ? 1 : static_cast<std::size_t>(shape.front()) * (shape.size() > 1 ? 4 : 1);
      const std::string name = "told" + std::to_string(told.ops.size());
      const Bytes data = encode(execute::testing::values(rank(), count, RODA_SUM), dtype);
      told.add(RODA_BROADCAST, name, shape, data, dtype).root = size() - 1;
    }
  }
  told.run();
  for (std::size_t i = 0; i < told.ops.size(); ++i) {
    const std::size_t count = told.outputs[i].size() / roda_dtype_size(told.ops[i].dtype);
    ASSERT_EQ(told.outputs[i], encode(execute::testing::values(size() - 1, count, RODA_SUM), told.ops[i].dtype));
  }
  for (int dtype = 0; dtype < RODA_DTYPE_COUNT; ++dtype) {
    const Bytes mine = encode(execute::testing::values(rank(), 2 * static_cast<std::size_t>(size()), RODA_SUM), dtype);
    const Shape shape{2 * size()};
    const std::string name = "moved";
    const auto gathered = run_owned<std::uint8_t>(make_op(RODA_ALLGATHER, name, shape, mine.data(), nullptr, dtype));
    ASSERT_EQ(gathered.outcome.code, RODA_OK) << gathered.outcome.message;
    EXPECT_EQ(gathered.shape, Shape{2 * size() * size()});
    const auto swapped = run_owned<std::uint8_t>(make_op(RODA_ALLTOALL, name, shape, mine.data(), nullptr, dtype));
    ASSERT_EQ(swapped.outcome.code, RODA_OK) << swapped.outcome.message;
    EXPECT_EQ(swapped.shape, shape);
  }
}

// Nobody has a row; and only one rank has.
TEST(Sizes, CollectivesOfNothing) {
  float nothing = 0;
  const Shape none{0, 3};
  for (int round = 0; round < 2; ++round) {
    const auto gathered = run_owned<float>(make_op(RODA_ALLGATHER, "none", none, &nothing, nullptr));
    ASSERT_EQ(gathered.outcome.code, RODA_OK) << gathered.outcome.message;
    EXPECT_EQ(gathered.shape, none);
    const auto swapped = run_owned<float>(make_op(RODA_ALLTOALL, "nowhere", none, &nothing, nullptr));
    ASSERT_EQ(swapped.outcome.code, RODA_OK) << swapped.outcome.message;
    EXPECT_EQ(swapped.shape, none);
    const auto scattered = run_owned<float>(make_op(RODA_REDUCESCATTER, "nobody", none, &nothing, nullptr));
    ASSERT_EQ(scattered.outcome.code, RODA_OK) << scattered.outcome.message;
    EXPECT_EQ(scattered.shape, none);
    const std::vector<float> row{1, 2, 3};
    const Shape own{rank() == size() - 1 ? 1 : 0, 3};
    const auto single = run_owned<float>(make_op(RODA_ALLGATHER, "one", own, row.data(), nullptr));
    ASSERT_EQ(single.outcome.code, RODA_OK) << single.outcome.message;
    EXPECT_EQ(single.values, row);
  }
}

// Rows of no elements still count.
TEST(Sizes, RowsWithoutElements) {
  float nothing = 0;
  const Shape rows{rank() + 1, 0};
  const auto gathered = run_owned<float>(make_op(RODA_ALLGATHER, "empty rows", rows, &nothing, nullptr));
  ASSERT_EQ(gathered.outcome.code, RODA_OK) << gathered.outcome.message;
  EXPECT_EQ(gathered.shape, (Shape{size() * (size() + 1) / 2, 0}));
}

TEST(Sizes, ScalarsHaveNoRows) {
  float value = 1;
  for (const int collective : {RODA_ALLGATHER, RODA_REDUCESCATTER}) {
    const Outcome o = run(make_op(collective, "scalar", {}, &value, nullptr));
    EXPECT_EQ(o.code, RODA_ERR_PRECONDITION);
    EXPECT_NE(o.message.find("a rank-zero tensor"), std::string::npos) << o.message;
  }
}

}  // namespace
}  // namespace roda::test
