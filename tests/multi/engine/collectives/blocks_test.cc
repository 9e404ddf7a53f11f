// Collectives with blocks or a root: allgather, broadcast, reduce, alltoall, reduce-scatter.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "tests/multi/engine/collectives/values.h"

namespace roda::test {
namespace {

TEST(Allgather, RowsMayDifferAndBeNone) {
  for (int round = 0; round < 3; ++round) {
    const std::int64_t rows = rank() == 1 ? 0 : rank() + 1 + round;
    const Shape shape{rows, 2};
    const std::vector<std::int32_t> in(static_cast<std::size_t>(rows * 2), rank());
    const auto out = run_owned<std::int32_t>(make_op(RODA_ALLGATHER, "gather", shape, in.data(), nullptr, RODA_INT32));
    ASSERT_EQ(out.outcome.code, RODA_OK) << out.outcome.message;
    std::vector<std::int32_t> expected;
    for (int r = 0; r < size(); ++r)
      expected.insert(expected.end(), r == 1 ? 0u : 2u * static_cast<unsigned>(r + 1 + round), r);
    EXPECT_EQ(out.values, expected);
    EXPECT_EQ(out.shape, (Shape{static_cast<std::int64_t>(expected.size()) / 2, 2}));
  }
}

TEST(Broadcast, FromEveryRoot) {
  for (int root = 0; root < size(); ++root) {
    for (const std::size_t n : {1u, 1000u, 500000u}) {
      std::vector<float> data = mine(n);
      const Shape shape{static_cast<std::int64_t>(n)};
      const std::string name = "bcast";
      roda_op op = make_op(RODA_BROADCAST, name, shape, data.data(), data.data());
      op.root = root;
      ASSERT_EQ(run(op).code, RODA_OK);
      ASSERT_TRUE(are_equal(data, of_rank(root, n)));
    }
  }
}

// In place on the root, into memory of its own, and into the engine's; elsewhere the input stays and nothing comes out.
TEST(Reduce, ToEveryRootInEveryPlace) {
  for (int root = 0; root < size(); ++root) {
    const bool is_root = rank() == root;
    for (const std::size_t n : {1u, 1000u, 500000u}) {
      const Shape shape{static_cast<std::int64_t>(n)};
      std::vector<float> in = mine(n), out(n, -1);
      roda_op op = make_op(RODA_REDUCE, "reduce", shape, in.data(), out.data());
      op.root = root;
      ASSERT_EQ(run(op).code, RODA_OK);
      ASSERT_TRUE(are_equal(in, mine(n)));
      if (is_root) {
        expect_sum(out);
      }
      if (!is_root) {
        ASSERT_TRUE(are_equal(out, std::vector<float>(n, -1)));
      }
      op.output = in.data();
      ASSERT_EQ(run(op).code, RODA_OK);
      if (is_root) {
        expect_sum(in);
      }
      if (!is_root) {
        ASSERT_TRUE(are_equal(in, mine(n)));
      }
    }
    std::vector<double> in{1.0 + rank(), -2.0};
    const Shape two{2};
    for (const int kind : {RODA_SUM, RODA_AVERAGE, RODA_MIN, RODA_MAX, RODA_PRODUCT}) {
      roda_op op = make_op(RODA_REDUCE, "owned", two, in.data(), nullptr, RODA_FLOAT64);
      op.root = root;
      op.op = kind;
      op.prescale = kind == RODA_SUM ? 2 : 1;
      op.postscale = kind == RODA_SUM ? 0.25 : 1;
      if (!is_root) {
        ASSERT_EQ(run(op).code, RODA_OK);
        continue;
      }
      const auto out = run_owned<double>(op);
      ASSERT_EQ(out.outcome.code, RODA_OK) << out.outcome.message;
      const double sum = size() * (size() + 1) / 2.0;
      double product = 1;
      for (int r = 1; r <= size(); ++r) product *= r;
      const double expected = kind == RODA_SUM       ? sum / 2
                              : kind == RODA_AVERAGE ? sum / size()
                              : kind == RODA_MIN     ? 1
                              : kind == RODA_MAX     ? size()
                                                     : product;
      EXPECT_DOUBLE_EQ(out.values[0], expected) << roda_reduce_op_name(kind);
    }
    EXPECT_EQ(in[0], 1.0 + rank());
  }
}

TEST(Reduce, WhatIsWrongIsToldAtOnce) {
  std::vector<float> data(4);
  const Shape four{4};
  roda_op op = make_op(RODA_REDUCE, "nowhere", four, data.data(), data.data());
  op.root = size();
  Outcome o = run(op);
  EXPECT_EQ(o.code, RODA_ERR_INVALID);
  EXPECT_NE(o.message.find("reduce received invalid root rank " + std::to_string(size())), std::string::npos)
      << o.message;
  op.root = 0;
  op.op = RODA_ADASUM;
  o = run(op);
  EXPECT_EQ(o.code, RODA_ERR_INVALID);
  EXPECT_NE(o.message.find("Reduce has no Adasum"), std::string::npos) << o.message;
}

TEST(Alltoall, WithSplitsAndWithout) {
  std::vector<std::int32_t> splits;
  std::vector<std::int32_t> in;
  for (int to = 0; to < size(); ++to) {
    splits.push_back((rank() + to) % 3);
    in.insert(in.end(), static_cast<std::size_t>(splits.back()), rank() * 100 + to);
  }
  const Shape shape{static_cast<std::int64_t>(in.size())};
  const std::string name = "a2a";
  roda_op op = make_op(RODA_ALLTOALL, name, shape, in.data(), nullptr, RODA_INT32);
  op.splits = splits.data();
  op.num_splits = size();
  const auto out = run_owned<std::int32_t>(op);
  ASSERT_EQ(out.outcome.code, RODA_OK) << out.outcome.message;
  std::vector<std::int32_t> expected;
  std::vector<std::int32_t> received;
  for (int from = 0; from < size(); ++from) {
    received.push_back((from + rank()) % 3);
    expected.insert(expected.end(), static_cast<std::size_t>(received.back()), from * 100 + rank());
  }
  EXPECT_EQ(out.values, expected);
  EXPECT_EQ(out.splits, received);

  std::vector<double> even(static_cast<std::size_t>(size()) * 1000, rank());
  const Shape even_shape{static_cast<std::int64_t>(even.size())};
  const auto spread = run_owned<double>(make_op(RODA_ALLTOALL, "even", even_shape, even.data(), nullptr, RODA_FLOAT64));
  ASSERT_EQ(spread.outcome.code, RODA_OK) << spread.outcome.message;
  for (std::size_t i = 0; i < even.size(); ++i) ASSERT_EQ(spread.values[i], static_cast<double>(i / 1000));
}

TEST(Reducescatter, SplitsRowsEvenly) {
  for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{7}, std::int64_t{30000}}) {
    const Shape shape{rows, 3};
    const std::vector<float> in = mine(static_cast<std::size_t>(rows * 3));
    const std::string name = "rs" + std::to_string(rows);
    for (const double factor : {1.0, 0.5}) {
      roda_op op = make_op(RODA_REDUCESCATTER, name, shape, in.data(), nullptr);
      op.prescale = factor;
      const auto out = run_owned<float>(op);
      ASSERT_EQ(out.outcome.code, RODA_OK) << out.outcome.message;
      std::int64_t begin = 0;
      for (int r = 0; r < rank(); ++r) begin += rows / size() + (r < rows % size() ? 1 : 0);
      const std::int64_t own = rows / size() + (rank() < rows % size() ? 1 : 0);
      ASSERT_EQ(out.shape, (Shape{own, 3}));
      const auto scaled = [&](std::size_t i) { return static_cast<float>(factor) * sum_of(i); };
      const auto from = static_cast<std::size_t>(begin * 3);
      ASSERT_TRUE(are_equal(out.values, repeating(kPeriod, static_cast<std::size_t>(own * 3), scaled, from)));
    }
  }
}

}  // namespace
}  // namespace roda::test
