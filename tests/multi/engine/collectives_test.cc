// Every rank of a job runs these, in the same order.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <random>
#include <thread>

#include "tests/multi/engine/rank.h"

namespace roda::test {
namespace {

using Shape = std::vector<std::int64_t>;

float value_of(int rank, std::size_t i) { return static_cast<float>((rank + 1) * static_cast<int>(i % 7 + 1)); }

float sum_of(std::size_t i) {
  float sum = 0;
  for (int r = 0; r < size(); ++r) sum += value_of(r, i);
  return sum;
}

void expect_sum(const std::vector<float>& got) {
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], sum_of(i)) << "element " << i;
}

std::vector<float> mine(std::size_t n) {
  std::vector<float> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = value_of(rank(), i);
  return v;
}

TEST(Allreduce, SumsAtEverySizeInPlaceAndNot) {
  for (const std::size_t n : {0u, 1u, 3u, 1000u, 20000u, 300001u, 3000000u}) {
    const Shape shape{static_cast<std::int64_t>(n)};
    std::vector<float> in = mine(n);
    std::vector<float> out(n, -1);
    const Outcome o = run(make_op(RODA_ALLREDUCE, "out" + std::to_string(n), shape, in.data(), out.data()));
    ASSERT_EQ(o.code, RODA_OK) << o.message;
    expect_sum(out);
    EXPECT_EQ(in, mine(n)) << "the input is not touched";
    ASSERT_EQ(run(make_op(RODA_ALLREDUCE, "in" + std::to_string(n), shape, in.data(), in.data())).code, RODA_OK);
    expect_sum(in);
  }
}

TEST(Allreduce, AppliesOpsAndFactors) {
  const Shape shape{5};
  const double n = size();
  struct Case {
    int op;
    double pre, post, expected;
  };
  const double sum = n * (n + 1) / 2;
  double factorial = 1;
  for (int i = 2; i <= size(); ++i) factorial *= i;
  const Case cases[] = {{RODA_AVERAGE, 1, 1, sum / n}, {RODA_MIN, 1, 1, 1},
                        {RODA_MAX, 1, 1, n},           {RODA_PRODUCT, 1, 1, factorial},
                        {RODA_SUM, 2, 0.25, sum / 2},  {RODA_AVERAGE, 4, 0.5, 2 * sum / n}};
  for (const Case& c : cases) {
    const std::vector<double> in(5, rank() + 1);
    std::vector<double> out(5);
    const std::string name = "op";
    roda_op op = make_op(RODA_ALLREDUCE, name, shape, in.data(), out.data(), RODA_FLOAT64);
    op.op = c.op;
    op.prescale = c.pre;
    op.postscale = c.post;
    const Outcome o = run(op);
    ASSERT_EQ(o.code, RODA_OK) << o.message;
    for (const double x : out) EXPECT_DOUBLE_EQ(x, c.expected) << roda_reduce_op_name(c.op);
  }
}

TEST(Allreduce, AveragesOfIntegersAreCutTowardsZero) {
  const Shape shape{2};
  const std::vector<std::int32_t> in{rank() == 0 ? 3 : 0, rank() == 0 ? -3 : 0};
  std::vector<std::int32_t> out(2);
  const std::string name = "int_average";
  roda_op op = make_op(RODA_ALLREDUCE, name, shape, in.data(), out.data(), RODA_INT32);
  op.op = RODA_AVERAGE;
  ASSERT_EQ(run(op).code, RODA_OK);
  EXPECT_EQ(out, (std::vector<std::int32_t>{3 / size(), -3 / size()}));
}

TEST(Allreduce, AnyOrderManyAtOnceAnyWaitingOrder) {
  constexpr int kTensors = 300;
  std::mt19937 random(static_cast<unsigned>(rank()) + 1);
  for (int round = 0; round < 4; ++round) {
    std::vector<std::vector<float>> data(kTensors);
    std::vector<roda_handle> handles(kTensors);
    std::vector<int> order(kTensors);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    for (const int t : order) {
      data[static_cast<std::size_t>(t)] = mine(static_cast<std::size_t>(t % 17 == 0 ? 100000 : 1 + t));
      auto& d = data[static_cast<std::size_t>(t)];
      const Shape shape{static_cast<std::int64_t>(d.size())};
      const Outcome o = submit({make_op(RODA_ALLREDUCE, "many" + std::to_string(t), shape, d.data(), d.data())},
                               &handles[static_cast<std::size_t>(t)]);
      ASSERT_EQ(o.code, RODA_OK) << o.message;
    }
    std::shuffle(order.begin(), order.end(), random);
    for (const int t : order) {
      ASSERT_EQ(wait(handles[static_cast<std::size_t>(t)]).code, RODA_OK);
      expect_sum(data[static_cast<std::size_t>(t)]);
    }
  }
}

TEST(Allreduce, GroupsEndTogether) {
  for (int round = 0; round < 3; ++round) {
    std::vector<std::vector<float>> data;
    std::vector<roda_op> ops;
    std::vector<std::string> names;
    std::vector<Shape> shapes;
    for (std::size_t i = 0; i < 20; ++i) {
      data.push_back(mine(10 * i));
      names.push_back("group_" + std::to_string(i));
      shapes.push_back({static_cast<std::int64_t>(10 * i)});
    }
    for (std::size_t i = 0; i < 20; ++i) {
      ops.push_back(make_op(RODA_ALLREDUCE, names[i], shapes[i], data[i].data(), data[i].data()));
    }
    roda_handle handle = 0;
    ASSERT_EQ(submit(ops, &handle).code, RODA_OK);
    ASSERT_EQ(wait(handle).code, RODA_OK);
    for (const auto& d : data) expect_sum(d);
  }
}

TEST(Allreduce, PollEndsWithoutAWaiter) {
  std::vector<float> data = mine(1000);
  const Shape shape{1000};
  roda_handle handle = 0;
  ASSERT_EQ(submit({make_op(RODA_ALLREDUCE, "polled", shape, data.data(), data.data())}, &handle).code, RODA_OK);
  while (roda_poll(handle) == 0) std::this_thread::yield();
  ASSERT_EQ(wait(handle).code, RODA_OK);
  expect_sum(data);
}

// A backlog in which tensors of another kind overtake one that is agreed and not launched: with a small cache
// (HOROVOD_CACHE_CAPACITY=1) it is evicted, and its bit given to another tensor, before its launch.
TEST(Allreduce, OvertakenTensorsGetTheirOwnResults) {
  const Shape large{8 << 20}, small{100};
  std::vector<std::vector<float>> fillers(2, mine(8 << 20));
  std::vector<double> overtaken(100);
  std::vector<float> first(100), again(100);
  for (int round = 0; round < 5; ++round) {
    const std::string number = std::to_string(round);
    std::vector<roda_handle> handles(4);
    for (std::size_t i = 0; i < fillers.size(); ++i) {
      float* data = fillers[i].data();
      const std::string name = "filler" + std::to_string(i);
      ASSERT_EQ(submit({make_op(RODA_ALLREDUCE, name, large, data, data)}, &handles[i]).code, RODA_OK);
    }
    overtaken.assign(100, rank() + 1.0);
    first.assign(100, 1);
    again.assign(100, 2);
    ASSERT_EQ(
        submit({make_op(RODA_ALLREDUCE, "overtaken" + number, small, overtaken.data(), overtaken.data(), RODA_FLOAT64)},
               &handles[2])
            .code,
        RODA_OK);
    ASSERT_EQ(run(make_op(RODA_ALLREDUCE, "quick" + number, small, first.data(), first.data())).code, RODA_OK);
    ASSERT_EQ(submit({make_op(RODA_ALLREDUCE, "quick" + number, small, again.data(), again.data())}, &handles[3]).code,
              RODA_OK);
    for (const roda_handle handle : handles) {
      const Outcome o = wait(handle);
      ASSERT_EQ(o.code, RODA_OK) << o.message;
    }
    EXPECT_EQ(overtaken, std::vector<double>(100, size() * (size() + 1) / 2));
    EXPECT_EQ(first, std::vector<float>(100, static_cast<float>(size())));
    EXPECT_EQ(again, std::vector<float>(100, static_cast<float>(2 * size())));
  }
}

TEST(Allreduce, SeveralThreadsSubmitAndWait) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 50; ++i) {
        std::vector<float> data = mine(static_cast<std::size_t>(100 + i * 37));
        const Shape shape{static_cast<std::int64_t>(data.size())};
        const std::string name = "thread" + std::to_string(t) + "." + std::to_string(i % 5);
        ASSERT_EQ(run(make_op(RODA_ALLREDUCE, name, shape, data.data(), data.data())).code, RODA_OK);
        expect_sum(data);
      }
    });
  }
  for (auto& t : threads) t.join();
}

// With averages inside hosts each rank's share is that much smaller.
double adasum_divisor() {
  const bool averages = std::getenv("RODA_HIERARCHICAL_ADASUM") != nullptr && roda_cross_size() > 1;
  return averages ? roda_local_size() : 1;
}

// Rank r has r + 1 at element r of n, zeros elsewhere: orthogonal vectors, whose adaptive sum is their sum. And equal
// vectors, whose adaptive sum is their average. In one group, so that each must have weights of its own.
TEST(Adasum, AddsWhatIsOrthogonalAndAveragesWhatIsAlike) {
  const bool works = (size() & (size() - 1)) == 0;
  const double share = adasum_divisor();
  for (const int dtype : {RODA_FLOAT32, RODA_FLOAT64}) {
    for (const std::int64_t n : {std::int64_t{5}, std::int64_t{300000}}) {
      const std::size_t count = static_cast<std::size_t>(n);
      std::vector<double> wide[2] = {std::vector<double>(count), std::vector<double>(count, 3)};
      wide[0][static_cast<std::size_t>(rank())] = rank() + 1;
      std::vector<float> narrow[2];
      for (int i = 0; i < 2; ++i) narrow[i].assign(wide[i].begin(), wide[i].end());
      const std::string names[2] = {"orthogonal" + std::to_string(n), "alike" + std::to_string(n)};
      const Shape shape{n};
      std::vector<roda_op> ops;
      for (int i = 0; i < 2; ++i) {
        void* data = dtype == RODA_FLOAT64 ? static_cast<void*>(wide[i].data()) : narrow[i].data();
        ops.push_back(make_op(RODA_ALLREDUCE, names[i], shape, data, data, dtype));
        ops.back().op = RODA_ADASUM;
        ops.back().postscale = 2;
      }
      roda_handle handle = 0;
      ASSERT_EQ(submit(ops, &handle).code, RODA_OK);
      const Outcome o = wait(handle);
      if (!works) {
        EXPECT_NE(o.message.find("non-power-of-2 ranks"), std::string::npos) << o.message;
        continue;
      }
      ASSERT_EQ(o.code, RODA_OK) << o.message;
      for (std::size_t i = 0; i < count; ++i) {
        const double sum = i < static_cast<std::size_t>(size()) ? 2.0 * static_cast<double>(i + 1) / share : 0;
        ASSERT_DOUBLE_EQ(dtype == RODA_FLOAT64 ? wide[0][i] : static_cast<double>(narrow[0][i]), sum);
        ASSERT_DOUBLE_EQ(dtype == RODA_FLOAT64 ? wide[1][i] : static_cast<double>(narrow[1][i]), 6);
      }
    }
  }
}

TEST(Adasum, OfWholeNumbersIsRefused) {
  std::vector<std::int32_t> data(4, 1);
  const Shape shape{4};
  roda_op op = make_op(RODA_ALLREDUCE, "whole", shape, data.data(), data.data(), RODA_INT32);
  op.op = RODA_ADASUM;
  const Outcome o = run(op);
  EXPECT_EQ(o.code, RODA_ERR_UNKNOWN);
  EXPECT_NE(o.message.find("Unsupported data type int32"), std::string::npos) << o.message;
}

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
      std::vector<float> data(n);
      for (std::size_t i = 0; i < n; ++i) data[i] = value_of(rank(), i);
      const Shape shape{static_cast<std::int64_t>(n)};
      const std::string name = "bcast";
      roda_op op = make_op(RODA_BROADCAST, name, shape, data.data(), data.data());
      op.root = root;
      ASSERT_EQ(run(op).code, RODA_OK);
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(data[i], value_of(root, i));
    }
  }
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
    std::vector<float> in(static_cast<std::size_t>(rows * 3));
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = value_of(rank(), i);
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
      for (std::size_t i = 0; i < out.values.size(); ++i) {
        ASSERT_EQ(out.values[i], static_cast<float>(factor) * sum_of(static_cast<std::size_t>(begin * 3) + i));
      }
    }
  }
}

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

TEST(Barrier, InterleavesWithOtherCollectives) {
  for (int i = 0; i < 20; ++i) {
    std::vector<float> data = mine(64);
    const Shape shape{64};
    roda_handle handle = 0;
    ASSERT_EQ(submit({make_op(RODA_ALLREDUCE, "beside", shape, data.data(), data.data())}, &handle).code, RODA_OK);
    ASSERT_EQ(run(make_op(RODA_BARRIER, "", {}, nullptr, nullptr)).code, RODA_OK);
    ASSERT_EQ(wait(handle).code, RODA_OK);
    expect_sum(data);
  }
}

TEST(Join, LateRanksGetZerosFromTheEarlyOnes) {
  // Rank r has r + 1 batches; what is reduced in batch b is the sum over the ranks that still have one.
  for (int batch = 0; batch <= rank(); ++batch) {
    std::vector<float> data(100, 1.0f);
    const Shape shape{100};
    ASSERT_EQ(run(make_op(RODA_ALLREDUCE, "batch", shape, data.data(), data.data())).code, RODA_OK);
    for (const float x : data) ASSERT_EQ(x, static_cast<float>(size() - batch));
  }
  roda_handle handle = 0;
  ASSERT_EQ(submit({make_op(RODA_JOIN, "", {}, nullptr, nullptr)}, &handle).code, RODA_OK);
  roda_error error{};
  ASSERT_EQ(roda_wait(handle, &error), RODA_OK);
  roda_output output{};
  ASSERT_EQ(roda_get_output(handle, 0, &output, &error), RODA_OK);
  EXPECT_EQ(output.value, size() - 1);
  roda_release(handle);
}

// Who joined gives zeros, which leave the others' adaptive sum as it is.
TEST(Join, AdasumGoesOnWithoutTheJoined) {
  if ((size() & (size() - 1)) != 0) GTEST_SKIP() << "needs a power of two of ranks";
  for (int round = 0; round < 2; ++round) {
    if (rank() == 0) {
      std::vector<float> data{1, 2, 3};
      const Shape shape{3};
      roda_op op = make_op(RODA_ALLREDUCE, "alone", shape, data.data(), data.data());
      op.op = RODA_ADASUM;
      const Outcome o = run(op);
      ASSERT_EQ(o.code, RODA_OK) << o.message;
      const auto share = static_cast<float>(1 / adasum_divisor());
      EXPECT_EQ(data, (std::vector<float>{share, 2 * share, 3 * share}));
    }
    ASSERT_EQ(run(make_op(RODA_JOIN, "", {}, nullptr, nullptr)).code, RODA_OK);
  }
}

TEST(ProcessSets, OverlappingSetsRunSideBySide) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  const std::vector<std::int32_t> low{0, 1};
  std::vector<std::int32_t> odd;
  for (int r = 1; r < size(); r += 2) odd.push_back(r);
  const int low_id = size() == 2 ? 0 : roda_add_process_set(low.data(), 2);
  ASSERT_GE(low_id, 0);
  const int odd_id = roda_add_process_set(odd.data(), static_cast<int>(odd.size()));
  ASSERT_GT(odd_id, 0);
  auto sum_in = [](int set, const std::vector<std::int32_t>& members, const std::string& name) {
    std::vector<float> data(5000, static_cast<float>(rank() + 1));
    const Shape shape{5000};
    roda_op op = make_op(RODA_ALLREDUCE, name, shape, data.data(), data.data());
    op.process_set = set;
    const Outcome o = run(op);
    if (std::find(members.begin(), members.end(), rank()) == members.end()) {
      EXPECT_EQ(o.code, RODA_ERR_INVALID);
      EXPECT_NE(o.message.find("is not a member of the provided process set"), std::string::npos) << o.message;
      return;
    }
    ASSERT_EQ(o.code, RODA_OK) << o.message;
    float expected = 0;
    for (const int r : members) expected += static_cast<float>(r + 1);
    for (const float x : data) ASSERT_EQ(x, expected);
  };
  for (int i = 0; i < 5; ++i) {
    const std::string name = "set" + std::to_string(i);
    sum_in(low_id, low, name);
    sum_in(odd_id, odd, name);
  }
  if (low_id != 0) {
    EXPECT_EQ(roda_remove_process_set(low_id), low_id);
  }
  EXPECT_EQ(roda_remove_process_set(odd_id), odd_id);
  EXPECT_EQ(roda_process_set_size(odd_id), -3);
}

TEST(Mismatch, EndsOnEveryRankAndLeavesTheEngineUsable) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  const bool odd = rank() == size() - 1;
  const std::string name = "mismatch";
  std::vector<double> data(64, 1);
  auto expect_error = [&](roda_op op, const std::string& begin) {
    const Outcome o = run(op);
    EXPECT_EQ(o.code, RODA_ERR_PRECONDITION);
    EXPECT_EQ(o.message.find(begin), 0u) << o.message;
    EXPECT_NE(o.message.find(std::to_string(size() - 1)), std::string::npos) << o.message;
  };
  const Shape a{4};
  const Shape b{5};
  roda_op op = make_op(RODA_ALLREDUCE, name, odd ? b : a, data.data(), data.data());
  expect_error(op, "Mismatched ALLREDUCE tensor shapes");
  op = make_op(RODA_ALLREDUCE, name, a, data.data(), data.data(), odd ? RODA_FLOAT64 : RODA_FLOAT32);
  expect_error(op, "Mismatched data types");
  op = make_op(RODA_ALLREDUCE, name, a, data.data(), data.data());
  op.op = odd ? RODA_MAX : RODA_SUM;
  expect_error(op, "Mismatched reduction operation");
  op.op = RODA_SUM;
  op.prescale = odd ? 2 : 1;
  expect_error(op, "Mismatched prescale and/or postscale factors");
  op.prescale = 1;
  op.collective = odd ? RODA_ALLGATHER : RODA_ALLREDUCE;
  expect_error(op, "Mismatched operations");
  op = make_op(RODA_BROADCAST, name, a, data.data(), data.data());
  op.root = odd ? 1 : 0;
  expect_error(op, "Mismatched BROADCAST root ranks");
  std::vector<float> good = mine(10);
  const Shape ten{10};
  ASSERT_EQ(run(make_op(RODA_ALLREDUCE, "mismatch", ten, good.data(), good.data())).code, RODA_OK);
  expect_sum(good);
}

TEST(LocalErrors, AreToldAtOnce) {
  std::vector<float> data(8);
  const Shape shape{8};
  const std::string name = "twice";
  const roda_op op = make_op(RODA_ALLREDUCE, name, shape, data.data(), data.data());
  roda_op first = op;
  roda_handle handle = 0;
  roda_handle second = 0;
  // The first can't end before every rank has submitted it, so that the second is a duplicate for sure where it is not
  // the last to submit; a job of one rank may be done by then.
  if (size() > 1 && rank() == 0) {
    ASSERT_EQ(submit({first}, &handle).code, RODA_OK);
    const Outcome o = submit({op}, &second);
    EXPECT_EQ(o.code, RODA_ERR_INVALID);
    EXPECT_NE(o.message.find("same name"), std::string::npos) << o.message;
  }
  ASSERT_EQ(run(make_op(RODA_BARRIER, "", {}, nullptr, nullptr)).code, RODA_OK);
  if (handle == 0) {
    ASSERT_EQ(submit({first}, &handle).code, RODA_OK);
  }
  ASSERT_EQ(wait(handle).code, RODA_OK);

  roda_op bad = op;
  bad.process_set = 77;
  EXPECT_EQ(run(bad).code, RODA_ERR_INVALID);
  bad = make_op(RODA_BROADCAST, name, shape, data.data(), data.data());
  bad.root = size();
  EXPECT_EQ(run(bad).code, RODA_ERR_INVALID);
  EXPECT_EQ(run(make_op(RODA_ALLREDUCE, "", shape, data.data(), data.data())).code, RODA_ERR_INVALID);
  EXPECT_EQ(roda_poll(12345), RODA_ERR_INVALID);
}

// The last test: it ends the engine.
TEST(ZLifeCycle, ShutdownAndInitAgain) {
  const int number = rank();
  for (int round = 0; round < 3; ++round) {
    roda_shutdown();
    EXPECT_EQ(roda_is_initialized(), 0);
    EXPECT_EQ(roda_rank(), -1);
    roda_error error{};
    error.struct_size = sizeof error;
    ASSERT_EQ(roda_init(nullptr, &error), RODA_OK) << error.message;
    EXPECT_EQ(rank(), number);
    std::vector<float> data = mine(100);
    const Shape shape{100};
    ASSERT_EQ(run(make_op(RODA_ALLREDUCE, "again", shape, data.data(), data.data())).code, RODA_OK);
    expect_sum(data);
  }
}

}  // namespace
}  // namespace roda::test
