// Groups of tensors: in one buffer where they are small, and all or nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/multi/engine/collectives/values.h"

namespace roda::test {
namespace {

// Groups of small tensors, which travel in one buffer: of several lengths, some empty, twice so that the cache is used.
constexpr std::size_t kMembers = 12;

std::vector<Outcome> outputs_of(const std::vector<roda_op>& ops, std::vector<std::vector<std::int32_t>>* values) {
  roda_handle handle = 0;
  if (const Outcome o = submit(ops, &handle); o.code != RODA_OK) return {o};
  roda_error error{};
  error.struct_size = sizeof error;
  std::vector<Outcome> outcomes{{roda_wait(handle, &error), error.message}};
  values->clear();
  for (std::size_t i = 0; i < ops.size() && outcomes.front().code == RODA_OK; ++i) {
    roda_output output{};
    output.struct_size = sizeof output;
    outcomes.push_back({roda_get_output(handle, static_cast<int>(i), &output, &error), error.message});
    const auto* data = static_cast<const std::int32_t*>(output.data);
    std::int64_t elements = 1;
    for (int d = 0; d < output.ndim; ++d) elements *= output.shape[d];
    values->emplace_back(data, data + elements);
    roda_output_release(output.owner);
  }
  roda_release(handle);
  return outcomes;
}

TEST(Buckets, OfAllgathers) {
  for (int round = 0; round < 2; ++round) {
    std::vector<std::vector<std::int32_t>> in(kMembers), out;
    std::vector<std::string> names;
    std::vector<Shape> shapes;
    for (std::size_t i = 0; i < kMembers; ++i) {
      const std::size_t rows = (i + static_cast<std::size_t>(rank())) % 4;
      in[i].assign(rows * (i + 1), 100 * rank() + static_cast<int>(i));
      names.push_back("gathered" + std::to_string(i));
      shapes.push_back({static_cast<std::int64_t>(rows), static_cast<std::int64_t>(i + 1)});
    }
    std::vector<roda_op> ops;
    for (std::size_t i = 0; i < kMembers; ++i) {
      ops.push_back(make_op(RODA_ALLGATHER, names[i], shapes[i], in[i].data(), nullptr, RODA_INT32));
    }
    for (const Outcome& o : outputs_of(ops, &out)) ASSERT_EQ(o.code, RODA_OK) << o.message;
    for (std::size_t i = 0; i < kMembers; ++i) {
      std::vector<std::int32_t> expected;
      for (int r = 0; r < size(); ++r) {
        const std::size_t rows = (i + static_cast<std::size_t>(r)) % 4;
        expected.insert(expected.end(), rows * (i + 1), 100 * r + static_cast<int>(i));
      }
      ASSERT_EQ(out[i], expected) << i;
    }
  }
}

TEST(Buckets, OfReducescatters) {
  for (int round = 0; round < 2; ++round) {
    std::vector<std::vector<std::int32_t>> in(kMembers), out;
    std::vector<std::string> names;
    std::vector<Shape> shapes;
    for (std::size_t i = 0; i < kMembers; ++i) {
      for (std::size_t k = 0; k < i * 3; ++k) in[i].push_back(static_cast<int>(k) * (rank() + 1));
      names.push_back("scattered" + std::to_string(i));
      shapes.push_back({static_cast<std::int64_t>(i), 3});
    }
    std::vector<roda_op> ops;
    for (std::size_t i = 0; i < kMembers; ++i) {
      ops.push_back(make_op(RODA_REDUCESCATTER, names[i], shapes[i], in[i].data(), nullptr, RODA_INT32));
      ops.back().prescale = 2;
      ops.back().postscale = 3;
    }
    for (const Outcome& o : outputs_of(ops, &out)) ASSERT_EQ(o.code, RODA_OK) << o.message;
    for (std::size_t i = 0; i < kMembers; ++i) {
      const int rows = static_cast<int>(i);
      int begin = 0;
      for (int r = 0; r < rank(); ++r) begin += rows / size() + (r < rows % size() ? 1 : 0);
      const int own = rows / size() + (rank() < rows % size() ? 1 : 0);
      std::vector<std::int32_t> expected;
      for (int k = begin * 3; k < (begin + own) * 3; ++k) expected.push_back(6 * k * size() * (size() + 1) / 2);
      ASSERT_EQ(out[i], expected) << i;
    }
  }
}

TEST(Buckets, OfBroadcasts) {
  for (int round = 0; round < 2; ++round) {
    std::vector<std::vector<double>> data(kMembers);
    std::vector<std::string> names;
    std::vector<Shape> shapes;
    for (std::size_t i = 0; i < kMembers; ++i) {
      data[i].assign(i * 7, 10.0 * rank() + static_cast<double>(i));
      names.push_back("told" + std::to_string(i));
      shapes.push_back({static_cast<std::int64_t>(i * 7)});
    }
    // Every other one from an input of its own, and from two roots.
    std::vector<double> given(kMembers * 7, -5.0 - rank());
    std::vector<roda_op> ops;
    for (std::size_t i = 0; i < kMembers; ++i) {
      const void* input = i % 2 == 0 ? data[i].data() : given.data();
      ops.push_back(make_op(RODA_BROADCAST, names[i], shapes[i], input, data[i].data(), RODA_FLOAT64));
      ops.back().root = i % 3 == 0 ? size() - 1 : 0;
    }
    roda_handle handle = 0;
    ASSERT_EQ(submit(ops, &handle).code, RODA_OK);
    const Outcome o = wait(handle);
    ASSERT_EQ(o.code, RODA_OK) << o.message;
    for (std::size_t i = 0; i < kMembers; ++i) {
      const double root = i % 3 == 0 ? size() - 1 : 0;
      const double expected = i % 2 == 0 ? 10 * root + static_cast<double>(i) : -5 - root;
      ASSERT_EQ(data[i], std::vector<double>(i * 7, expected)) << i;
    }
  }
}

// One member that the ranks disagree on: nobody's tensor is touched.
TEST(Groups, EndTogetherOrNotAtAll) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  std::vector<float> good(4, 1), odd(8, 1);
  const Shape four{4}, own{rank() == 0 ? 3 : 5};
  roda_handle handle = 0;
  ASSERT_EQ(submit({make_op(RODA_ALLREDUCE, "good", four, good.data(), good.data()),
                    make_op(RODA_ALLREDUCE, "odd", own, odd.data(), odd.data())},
                   &handle)
                .code,
            RODA_OK);
  const Outcome o = wait(handle);
  EXPECT_EQ(o.code, RODA_ERR_PRECONDITION);
  EXPECT_NE(o.message.find("Mismatched ALLREDUCE tensor shapes"), std::string::npos) << o.message;
  EXPECT_EQ(good, std::vector<float>(4, 1));
}

}  // namespace
}  // namespace roda::test
