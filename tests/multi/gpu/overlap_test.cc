// A step of ResNet-50 on a GPU whose backward pass lags behind the host's: what of the gradients travels before the
// last one is there, and what that puts on streams. CUDA and NCCL are DOUBLES (tests/doubles), whose streams wait at
// gates of the test's own: this proves our logic, and nothing about a GPU.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <thread>

#include "plugins/base/cuda/types.h"
#include "tests/doubles/cuda/double.h"
#include "tests/doubles/nccl/double.h"
#include "tests/multi/gpu/gpu_array.h"

namespace roda::test {
namespace {

template <typename Function>
Function* function_of(const char* library_setting, const char* name) {
  void* library = dlopen(std::getenv(library_setting), RTLD_NOW | RTLD_NOLOAD);
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
}

template <typename Function>
Function* of_driver(const char* name) {
  return function_of<Function>("RODA_TEST_CUDA_LIBRARY", name);
}

roda_cuda_double_puts puts() {
  roda_cuda_double_puts counts{};
  of_driver<decltype(roda_cuda_double_count)>("roda_cuda_double_count")(&counts);
  return counts;
}

roda_nccl_double_collectives collectives() {
  roda_nccl_double_collectives counts{};
  const char* name = "roda_nccl_double_count_collectives";
  function_of<decltype(roda_nccl_double_count_collectives)>("RODA_NCCL_LIBRARY", name)(&counts);
  return counts;
}

// Elements of ResNet-50's parameters in the order in which their gradients come, divided by OVERLAP_TEST_SCALE.
std::vector<std::size_t> gradients() {
  std::vector<std::size_t> sizes{64 * 3 * 49, 64, 64};
  const auto add_layer = [&sizes](std::size_t weights, std::size_t channels) {
    sizes.insert(sizes.end(), {weights, channels, channels});
  };
  std::size_t in = 64;
  const std::pair<std::size_t, int> stages[] = {{64, 3}, {128, 4}, {256, 6}, {512, 3}};
  for (const auto& [planes, blocks] : stages) {
    for (int block = 0; block < blocks; ++block) {
      add_layer(in * planes, planes);
      add_layer(planes * planes * 9, planes);
      add_layer(planes * planes * 4, planes * 4);
      if (block == 0) add_layer(in * planes * 4, planes * 4);
      in = planes * 4;
    }
  }
  sizes.insert(sizes.end(), {2048 * 1000, 1000});
  std::reverse(sizes.begin(), sizes.end());
  const std::size_t scale = std::strtoul(std::getenv("OVERLAP_TEST_SCALE"), nullptr, 10);
  for (std::size_t& size : sizes) size = std::max<std::size_t>(size / scale, 1);
  return sizes;
}

// The GPU's backward pass: a gradient is there once its gate is open.
class Backward {
 public:
  // As in a program, the GPU's context is current to this thread from now on.
  explicit Backward(void* stream) : stream_(stream) {
    cuda::Context context = nullptr;
    of_driver<cuda::Result(cuda::Context*, cuda::Ordinal)>("cuDevicePrimaryCtxRetain")(&context, own_gpu());
    of_driver<cuda::Result(cuda::Context)>("cuCtxPushCurrent_v2")(context);
  }
  void put(std::size_t gradient) {
    using HostFunc = cuda::Result(cuda::Stream, cuda::HostFunction, void*);
    auto* wait = new Wait{this, gradient};
    ASSERT_EQ(of_driver<HostFunc>("cuLaunchHostFunc")(static_cast<cuda::Stream>(stream_), &Backward::at_gate, wait),
              cuda::kSuccess);
  }
  void open(std::size_t gradients) { open_.store(gradients); }

 private:
  struct Wait {
    Backward* backward;
    std::size_t gradient;
  };
  static void at_gate(void* argument) {
    const std::unique_ptr<Wait> wait(static_cast<Wait*>(argument));
    while (wait->backward->open_.load() <= wait->gradient) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  void* stream_;
  std::atomic<std::size_t> open_{0};
};

class Step {
 public:
  Step() : sizes_(gradients()), stream_(own_stream(own_gpu())) {
    for (const std::size_t size : sizes_) {
      const std::vector<float> ones(size, static_cast<float>(rank() + 1));
      data_.push_back(std::make_unique<GpuArray>(ones.data(), size * sizeof(float)));
    }
  }
  std::size_t tensors() const { return sizes_.size(); }
  std::size_t bytes() const { return std::accumulate(sizes_.begin(), sizes_.end(), std::size_t{0}) * sizeof(float); }

  // As hooks do, one by one, the host ahead of the GPU.
  void submit_all(Backward* backward) {
    handles_.assign(tensors(), 0);
    for (std::size_t t = 0; t < tensors(); ++t) {
      if (backward != nullptr) backward->put(t);
      const std::string name = "gradient" + std::to_string(t);
      const std::vector<std::int64_t> shape{static_cast<std::int64_t>(sizes_[t])};
      roda_op op = gpu_op(RODA_ALLREDUCE, name, shape, data_[t]->data(), data_[t]->data());
      op.op = RODA_AVERAGE;
      op.flags = RODA_OP_IN_STREAM_ORDER;
      const Outcome o = submit({op}, &handles_[t]);
      ASSERT_EQ(o.code, RODA_OK) << o.message;
    }
  }
  void wait_all() {
    for (const roda_handle handle : handles_) {
      const Outcome o = wait_on_stream(handle);
      ASSERT_EQ(o.code, RODA_OK) << o.message;
    }
  }
  void expect_averages() const {
    const float average = static_cast<float>(size() + 1) / 2;
    for (std::size_t t = 0; t < tensors(); t += 40) {
      const std::vector<float> got = data_[t]->read<float>();
      EXPECT_EQ(std::ranges::count(got, average), static_cast<std::ptrdiff_t>(sizes_[t])) << t;
    }
  }

 private:
  std::vector<std::size_t> sizes_;
  void* stream_;
  std::vector<std::unique_ptr<GpuArray>> data_;
  std::vector<roda_handle> handles_;
};

TEST(GpuOverlap, MostOfTheGradientsTravelBeforeTheLastIsThere) {
  Step step;
  Backward backward(own_stream(own_gpu()));
  step.submit_all(nullptr);  // connects, and takes memory
  step.wait_all();
  step.expect_averages();

  const auto puts_before = puts();
  const auto before = collectives();
  step.submit_all(&backward);
  std::thread waits([&step] { step.wait_all(); });  // as step() does while the GPU works
  backward.open(step.tensors() - 1);
  const auto started = [&] { return collectives().started_bytes - before.started_bytes; };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(40);
  while (started() < step.bytes() * 85 / 100 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GE(started(), step.bytes() * 85 / 100);
  EXPECT_LT(started(), step.bytes()) << "the last gradient is not there";
  const bool all_lies_on_stream = std::getenv("OVERLAP_TEST_COUNTS") != nullptr;
  if (all_lies_on_stream) waits.join();  // before the GPU has come to the end
  backward.open(step.tensors());
  if (waits.joinable()) waits.join();
  const auto calls = collectives().called - before.called;
  const auto after = puts();
  step.expect_averages();
  if (!all_lies_on_stream) return;
  EXPECT_LE(calls, 6u);
  EXPECT_LE(after.kernels - puts_before.kernels, 12u);
  EXPECT_LE(after.events - puts_before.events, 30u);
  EXPECT_LE(after.waits - puts_before.waits, 12u);
  EXPECT_LE(after.questions - puts_before.questions, step.tensors() + 2 * calls) << "one for each pointer";
}

// Four slices: what is copied down or up of one may run beside NCCL's part of another. The double is slow, so that the
// host has not seen a copy's end before it goes on.
TEST(GpuOverlap, CopiesRunBesideNcclsWork) {
  if (std::getenv("RODA_CUDA_DOUBLE_DELAY_US") == nullptr) GTEST_SKIP() << "not on a slow double";
  const std::vector<std::int64_t> shape{std::int64_t{8} << 20};
  const std::vector<float> ones(static_cast<std::size_t>(shape[0]), 1);
  const GpuArray data(ones.data(), ones.size() * sizeof(float));
  const auto staged = of_driver<decltype(roda_cuda_double_staged_bytes)>("roda_cuda_double_staged_bytes");
  const auto overlaps = of_driver<decltype(roda_cuda_double_overlaps)>("roda_cuda_double_overlaps");
  const auto staged_before = staged();
  overlaps(1);
  roda_handle handle = 0;
  ASSERT_EQ(submit({gpu_op(RODA_ALLREDUCE, "large", shape, data.data(), data.data())}, &handle).code, RODA_OK);
  ASSERT_EQ(wait_on_stream(handle).code, RODA_OK);
  EXPECT_EQ(data.read<float>(), std::vector<float>(ones.size(), static_cast<float>(size())));
  EXPECT_GT(overlaps(0), 0u) << "on one stream there are none";
  EXPECT_EQ(staged() - staged_before, ones.size() * sizeof(float)) << "each half of it down and up";
}

// The program gives up a result while its stream has not come to it yet.
TEST(GpuOverlap, ResultsGoInTheOrderOfTheProgramsStream) {
  if (std::getenv("OVERLAP_TEST_COUNTS") == nullptr) GTEST_SKIP() << "results that networks reach are freed at once";
  constexpr std::size_t kRows = 1000;
  const std::vector<std::int64_t> shape{kRows};
  const auto bytes = kRows * static_cast<std::size_t>(size()) * sizeof(float);
  const std::vector<float> ones(kRows, 1), zeros(kRows * static_cast<std::size_t>(size()), 0);
  const GpuArray in(ones.data(), kRows * sizeof(float)), copy(zeros.data(), bytes);
  copy.read<float>();  // it has its value
  void* const stream = own_stream(own_gpu());
  for (int round = 0; round < 3; ++round) {
    Backward backward(stream);
    roda_op op = gpu_op(RODA_ALLGATHER, "result", shape, in.data(), nullptr);
    op.flags = RODA_OP_IN_STREAM_ORDER;
    roda_handle handle = 0;
    ASSERT_EQ(submit({op}, &handle).code, RODA_OK);
    roda_error error{};
    error.struct_size = sizeof error;
    ASSERT_EQ(roda_wait_on_stream(handle, stream, &error), RODA_OK) << error.message;
    roda_output output{};
    output.struct_size = sizeof output;
    ASSERT_EQ(roda_get_output(handle, 0, &output, &error), RODA_OK) << error.message;
    backward.put(0);
    ASSERT_EQ(gpu_device().copy(copy.data(), output.data, bytes, stream, nullptr), RODA_OK);
    roda_release(handle);
    roda_output_release(output.owner);
    backward.open(1);
    EXPECT_EQ(copy.read<float>(), std::vector<float>(kRows * static_cast<std::size_t>(size()), 1));
  }
}

TEST(GpuOverlap, AnAlltoallOfEqualPartsIsNcclsOwn) {
  if (std::getenv("OVERLAP_TEST_COUNTS") == nullptr) GTEST_SKIP() << "counts NCCL's calls";
  const std::vector<float> values(static_cast<std::size_t>(4 * size()), static_cast<float>(rank()));
  const GpuArray in(values.data(), values.size() * sizeof(float));
  const std::vector<std::int64_t> shape{4 * size()};
  for (const bool is_even : {true, false}) {
    std::vector<std::int32_t> splits(static_cast<std::size_t>(size()), 4);
    if (!is_even && rank() == 0) splits[0] = 3;
    roda_op op = gpu_op(RODA_ALLTOALL, "parts", shape, in.data(), nullptr);
    op.splits = splits.data();
    op.num_splits = size();
    const auto before = collectives();
    roda_handle handle = 0;
    ASSERT_EQ(submit({op}, &handle).code, RODA_OK);
    ASSERT_EQ(wait_on_stream(handle).code, RODA_OK);
    EXPECT_EQ(collectives().all_to_alls - before.all_to_alls, is_even ? 1u : 0u) << "the same on all ranks";
  }
}

// Nothing is ever complete by its bytes here, and no clock ends a wait in this test's time.
TEST(GpuOverlap, ABucketTravelsOnceAllHaveItsTensorsAndWait) {
  for (int round = 0; round < 20; ++round) {
    std::vector<std::unique_ptr<GpuArray>> data;
    std::vector<roda_handle> handles(5);
    for (std::size_t t = 0; t < handles.size(); ++t) {
      if (round % size() == rank())
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the others wait for it
      const std::vector<float> ones(10, 1);
      data.push_back(std::make_unique<GpuArray>(ones.data(), ones.size() * sizeof(float)));
      const std::string name = "small" + std::to_string(t);
      const Outcome o = submit({gpu_op(RODA_ALLREDUCE, name, {10}, data[t]->data(), data[t]->data())}, &handles[t]);
      ASSERT_EQ(o.code, RODA_OK) << o.message;
    }
    for (std::size_t t = handles.size(); t-- > 0;) {
      const Outcome o = wait_on_stream(handles[t]);
      ASSERT_EQ(o.code, RODA_OK) << o.message;
      EXPECT_EQ(data[t]->read<float>(), std::vector<float>(10, static_cast<float>(size())));
    }
  }
}

}  // namespace
}  // namespace roda::test
