// The other collectives, as allreduce_test.cc has it, and streams, errors, process sets, life cycle and joins.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>

#include "tests/multi/gpu/gpu_array.h"
#include "tests/multi/gpu/gpu_values.h"

namespace roda::test {
namespace {

struct Owned {
  Outcome outcome;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
  std::int32_t device = -1;
};

// Waits, reads what the engine owns.
Owned finish(roda_handle handle, int index = 0) {
  Owned owned;
  roda_error error{};
  error.struct_size = sizeof error;
  owned.outcome.code = roda_wait_on_stream(handle, own_stream(own_gpu()), &error);
  if (owned.outcome.code != RODA_OK) {
    owned.outcome.message = error.message;
    return owned;
  }
  roda_output output{};
  output.struct_size = sizeof output;
  EXPECT_EQ(roda_get_output(handle, index, &output, &error), RODA_OK);
  owned.shape.assign(output.shape, output.shape + output.ndim);
  owned.device = output.device;
  owned.values.resize(static_cast<std::size_t>(
      std::accumulate(owned.shape.begin(), owned.shape.end(), std::int64_t{1}, std::multiplies<>())));
  if (!owned.values.empty()) {
    EXPECT_EQ(gpu_device().device_of(output.data), own_gpu());
    read_gpu(output.data, owned.values.size() * sizeof(float), own_gpu(), owned.values.data());
  }
  roda_output_release(output.owner);
  return owned;
}

TEST(GpuAllgather, UnevenRowsAloneAndFused) {
  std::vector<roda_handle> handles(8);
  std::vector<std::unique_ptr<GpuArray>> inputs;
  for (int t = 0; t < 8; ++t) {
    const std::int64_t rows = rank() + t % 3;
    const Shape shape{rows, 3};
    const std::vector<float> values(static_cast<std::size_t>(rows * 3), static_cast<float>(rank() * 10 + t));
    inputs.push_back(std::make_unique<GpuArray>(values.data(), values.size() * sizeof(float)));
    const std::string name = "gather" + std::to_string(t);
    ASSERT_EQ(submit({gpu_op(RODA_ALLGATHER, name, shape, inputs.back()->data(), nullptr)},
                     &handles[static_cast<std::size_t>(t)])
                  .code,
              RODA_OK);
  }
  for (int t = 0; t < 8; ++t) {
    const Owned got = finish(handles[static_cast<std::size_t>(t)]);
    ASSERT_EQ(got.outcome.code, RODA_OK) << got.outcome.message;
    std::vector<float> expected;
    for (int r = 0; r < size(); ++r) {
      expected.insert(expected.end(), static_cast<std::size_t>((r + t % 3) * 3), static_cast<float>(r * 10 + t));
    }
    EXPECT_EQ(got.values, expected);
    EXPECT_EQ(got.device, own_gpu());
    roda_release(handles[static_cast<std::size_t>(t)]);
  }
}

TEST(GpuReducescatter, SumsAndAverages) {
  for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{7}, std::int64_t{4000}}) {
    for (const int op : {RODA_SUM, RODA_AVERAGE}) {
      const auto in = on_gpu(std::vector<float>(static_cast<std::size_t>(rows * 2), static_cast<float>(rank() + 1)));
      const Shape shape{rows, 2};
      const std::string name = "scatter" + std::to_string(rows) + roda_reduce_op_name(op);
      roda_op asked = gpu_op(RODA_REDUCESCATTER, name, shape, in.data(), nullptr);
      asked.op = op;
      asked.prescale = 2;
      roda_handle handle = 0;
      ASSERT_EQ(submit({asked}, &handle).code, RODA_OK);
      const Owned got = finish(handle);
      ASSERT_EQ(got.outcome.code, RODA_OK) << got.outcome.message;
      const float sum = static_cast<float>(size() * (size() + 1));
      for (const float x : got.values) EXPECT_FLOAT_EQ(x, op == RODA_SUM ? sum : sum / static_cast<float>(size()));
      EXPECT_EQ(got.shape[0], rows / size() + (rank() < rows % size() ? 1 : 0));
      roda_release(handle);
    }
  }
}

TEST(GpuBroadcast, FromEveryRootAloneAndFused) {
  for (int root = 0; root < size(); ++root) {
    std::vector<std::unique_ptr<GpuArray>> data;
    std::vector<roda_op> ops;
    std::vector<std::string> names;
    const Shape shapes[] = {{5}, {static_cast<std::int64_t>(large() / 2)}, {100}};
    for (int t = 0; t < 3; ++t) names.push_back("cast" + std::to_string(root) + "." + std::to_string(t));
    for (std::size_t t = 0; t < 3; ++t) {
      const std::vector<float> values(static_cast<std::size_t>(shapes[t][0]), static_cast<float>(rank()));
      data.push_back(std::make_unique<GpuArray>(values.data(), values.size() * sizeof(float)));
      ops.push_back(gpu_op(RODA_BROADCAST, names[t], shapes[t], data.back()->data(), data.back()->data()));
      ops.back().root = root;
    }
    roda_handle handle = 0;
    ASSERT_EQ(submit(ops, &handle).code, RODA_OK);
    const Outcome o = wait_on_stream(handle);
    ASSERT_EQ(o.code, RODA_OK) << o.message;
    for (const auto& d : data) {
      const std::vector<float> got = d->read<float>();
      EXPECT_EQ(got, std::vector<float>(got.size(), static_cast<float>(root)));
    }
  }
}

TEST(GpuAlltoall, UnevenSplits) {
  std::vector<std::int32_t> splits;
  std::vector<float> values;
  for (int to = 0; to < size(); ++to) {
    splits.push_back(rank() + to);
    values.insert(values.end(), static_cast<std::size_t>(2 * (rank() + to)), static_cast<float>(rank() * 100 + to));
  }
  const auto in = on_gpu(values);
  const Shape shape{static_cast<std::int64_t>(values.size()) / 2, 2};
  roda_op op = gpu_op(RODA_ALLTOALL, "all", shape, in.data(), nullptr);
  op.splits = splits.data();
  op.num_splits = size();
  roda_handle handle = 0;
  ASSERT_EQ(submit({op}, &handle).code, RODA_OK);
  const Owned got = finish(handle);
  ASSERT_EQ(got.outcome.code, RODA_OK) << got.outcome.message;
  std::vector<float> expected;
  for (int from = 0; from < size(); ++from) {
    expected.insert(expected.end(), static_cast<std::size_t>(2 * (from + rank())),
                    static_cast<float>(from * 100 + rank()));
  }
  EXPECT_EQ(got.values, expected);
  roda_release(handle);
}

// What comes on the caller's stream after roda_wait_on_stream sees the outputs, with and without async completion.
TEST(GpuStreams, OutputsAreThereInTheStreamsOrder) {
  for (int round = 0; round < 20; ++round) {
    const auto data = on_gpu(mine(50000));
    const Shape shape{50000};
    roda_handle handle = 0;
    ASSERT_EQ(submit({gpu_op(RODA_ALLREDUCE, "ordered", shape, data.data(), data.data())}, &handle).code, RODA_OK);
    roda_error error{};
    error.struct_size = sizeof error;
    ASSERT_EQ(roda_wait_on_stream(handle, own_stream(own_gpu()), &error), RODA_OK) << error.message;
    roda_release(handle);
    expect_sum(data.read<float>());
  }
}

TEST(GpuErrors, OneRankInHostMemory) {
  if (size() == 1) GTEST_SKIP() << "nobody to disagree with";
  std::vector<float> host = mine(10);
  const auto gpu = on_gpu(host);
  const Shape shape{10};
  const Outcome o = run_gpu(rank() == 0 ? make_op(RODA_ALLREDUCE, "kinds", shape, host.data(), host.data())
                                        : gpu_op(RODA_ALLREDUCE, "kinds", shape, gpu.data(), gpu.data()));
  EXPECT_EQ(o.code, RODA_ERR_PRECONDITION);
  EXPECT_NE(o.message.find("Mismatched ALLREDUCE CPU/GPU device selection: One rank specified device CPU, but another "
                           "rank specified device GPU."),
            std::string::npos)
      << o.message;
  const Outcome after = run_gpu(gpu_op(RODA_ALLREDUCE, "kinds", shape, gpu.data(), gpu.data()));
  EXPECT_EQ(after.code, RODA_OK) << after.message;
}

TEST(GpuErrors, HostMemoryGivenForAGpus) {
  std::vector<float> host = mine(10);
  const Shape shape{10};
  const Outcome o = run_gpu(gpu_op(RODA_ALLREDUCE, "not there", shape, host.data(), host.data()));
  EXPECT_EQ(o.code, RODA_ERR_INVALID);
  EXPECT_NE(o.message.find("'not there': the caller says that it lies on GPU"), std::string::npos) << o.message;
  EXPECT_NE(o.message.find("but it lies in host memory"), std::string::npos) << o.message;
}

// Sets that overlap, whose operations every rank submits in another order: one GPU takes them in one order on all
// ranks, be they a library's collectives or compositions with parts of it.
TEST(GpuProcessSets, OverlapInAnyOrder) {
  if (size() < 3) GTEST_SKIP() << "needs three ranks";
  std::vector<std::vector<std::int32_t>> members(3);
  for (int r = 0; r < size(); ++r) {
    members[0].push_back(r);
    if (r > 0) members[1].push_back(r);
    if (r < size() - 1) members[2].push_back(r);
  }
  std::vector<std::int32_t> ids{0};
  for (std::size_t s = 1; s < 3; ++s) ids.push_back(roda_add_process_set(members[s].data(), size() - 1));
  const Shape shape{30000};
  for (int round = 0; round < 10; ++round) {
    std::vector<std::unique_ptr<GpuArray>> data;
    std::vector<roda_handle> handles;
    std::vector<std::size_t> sets;
    for (std::size_t turn = 0; turn < 3; ++turn) {
      const std::size_t set = (turn + static_cast<std::size_t>(rank())) % 3;
      const auto& ranks = members[set];
      if (std::find(ranks.begin(), ranks.end(), rank()) == ranks.end()) continue;
      const std::vector<float> values(30000, static_cast<float>(rank()));
      data.push_back(std::make_unique<GpuArray>(values.data(), values.size() * sizeof(float)));
      const std::string name = "set" + std::to_string(set);
      roda_op op = gpu_op(RODA_ALLREDUCE, name, shape, data.back()->data(), data.back()->data());
      op.process_set = ids[set];
      handles.push_back(0);
      sets.push_back(set);
      const Outcome o = submit({op}, &handles.back());
      ASSERT_EQ(o.code, RODA_OK) << o.message;
    }
    for (std::size_t i = 0; i < handles.size(); ++i) {
      const Outcome o = wait_on_stream(handles[i]);
      ASSERT_EQ(o.code, RODA_OK) << o.message;
      const auto& ranks = members[sets[i]];
      const auto sum = static_cast<float>(std::accumulate(ranks.begin(), ranks.end(), 0));
      EXPECT_EQ(data[i]->read<float>(), std::vector<float>(30000, sum));
    }
  }
  for (std::size_t s = 1; s < 3; ++s) EXPECT_EQ(roda_remove_process_set(ids[s]), ids[s]);
}

// Outputs outlive the engine, and the next one works on the same GPUs.
TEST(ZGpuLifeCycle, ShutdownAndInitAgain) {
  const Shape shape{100, 1};
  const std::size_t ranks = static_cast<std::size_t>(size());
  const std::int32_t gpu = own_gpu();
  for (int round = 0; round < 2; ++round) {
    const auto data = on_gpu(mine(100));
    roda_handle handle = 0;
    ASSERT_EQ(submit({gpu_op(RODA_ALLGATHER, "kept", shape, data.data(), nullptr)}, &handle).code, RODA_OK);
    roda_error error{};
    error.struct_size = sizeof error;
    ASSERT_EQ(roda_wait_on_stream(handle, own_stream(own_gpu()), &error), RODA_OK) << error.message;
    roda_output output{};
    output.struct_size = sizeof output;
    ASSERT_EQ(roda_get_output(handle, 0, &output, &error), RODA_OK);
    roda_release(handle);
    roda_shutdown();
    std::vector<float> kept(100 * ranks);
    read_gpu(output.data, kept.size() * sizeof(float), gpu, kept.data());
    for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(kept[i], value_of(static_cast<int>(i / 100), i % 100));
    roda_output_release(output.owner);
    ASSERT_EQ(roda_init(nullptr, &error), RODA_OK) << error.message;
  }
}

// GPU_TEST_PLAN: what the job's settings are about is what runs.
TEST(GpuPlan, IsWhatWasAskedFor) {
  const char* expected = std::getenv("GPU_TEST_PLAN");
  if (expected == nullptr) GTEST_SKIP() << "nothing is asked for";
  roda_error error{};
  error.struct_size = sizeof error;
  const std::unique_ptr<char, void (*)(char*)> text(
      roda_explain_memory("cuda", nullptr, RODA_ALLREDUCE, 64 << 20, 0, 0, &error), roda_free_text);
  ASSERT_NE(text, nullptr) << error.message;
  const std::string plans = text.get();
  const std::string runs = plans.substr(plans.find("> "), plans.find("in reserve") - plans.find("> "));
  EXPECT_NE(runs.find(expected), std::string::npos) << plans;
}

// Averages inside hosts and Adasum between them, as it works in host memory when it is asked for by its knob.
TEST(GpuAdasum, IsTheHostsOwnWithAveragesInside) {
  if ((size() & (size() - 1)) != 0) GTEST_SKIP() << "needs a power of two of ranks";
  std::vector<double> values(1003);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(value_of(rank(), i)) - 0.5 * rank();
  for (const std::size_t n : {1u, 5u, 1003u}) {
    const Shape shape{static_cast<std::int64_t>(n)};
    const auto gpu = on_gpu(std::vector<double>(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(n)));
    std::vector<double> host(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(n));
    const bool is_average = roda_local_size() == size();
    const std::string name = "adasum" + std::to_string(n);
    roda_op op = make_op(RODA_ALLREDUCE, name, shape, host.data(), host.data(), RODA_FLOAT64);
    op.op = is_average && std::getenv("GPU_TEST_STAGED") == nullptr ? RODA_AVERAGE : RODA_ADASUM;
    Outcome o = run(op);
    ASSERT_EQ(o.code, RODA_OK) << o.message;
    op = gpu_op(RODA_ALLREDUCE, name, shape, gpu.data(), gpu.data(), RODA_FLOAT64);
    op.op = RODA_ADASUM;
    o = run_gpu(op);
    ASSERT_EQ(o.code, RODA_OK) << o.message;
    const std::vector<double> got = gpu.read<double>();
    for (std::size_t i = 0; i < n; ++i) ASSERT_NEAR(got[i], host[i], 1e-9 * (1 + std::abs(host[i]))) << n << ": " << i;
  }
}

// Ranks that have joined give zeros, on a GPU.
TEST(GpuJoin, JoinedRanksGiveZeros) {
  const Shape shape{100};
  float expected = 0;
  for (int r = 1; r < size(); ++r) expected += static_cast<float>(r + 1);
  if (rank() != 0) {
    for (int round = 0; round < 3; ++round) {
      std::vector<std::unique_ptr<GpuArray>> data;
      std::vector<roda_handle> handles(4);
      for (std::size_t t = 0; t < 4; ++t) {
        const std::vector<float> values(100, static_cast<float>(rank() + 1));
        data.push_back(std::make_unique<GpuArray>(values.data(), values.size() * sizeof(float)));
        const std::string name = "joined" + std::to_string(t);
        ASSERT_EQ(submit({gpu_op(RODA_ALLREDUCE, name, shape, data[t]->data(), data[t]->data())}, &handles[t]).code,
                  RODA_OK);
      }
      for (std::size_t t = 0; t < 4; ++t) {
        const Outcome o = wait_on_stream(handles[t]);
        ASSERT_EQ(o.code, RODA_OK) << o.message;
        EXPECT_EQ(data[t]->read<float>(), std::vector<float>(100, expected));
      }
    }
  }
  roda_op join = make_op(RODA_JOIN, "", {}, nullptr, nullptr);
  join.device = own_gpu();
  const Outcome o = run(join);
  EXPECT_EQ(o.code, RODA_OK) << o.message;
}

}  // namespace
}  // namespace roda::test
