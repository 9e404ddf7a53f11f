// What goes wrong on GPUs ends every operation on every rank, with the cause; run_ranks bounds the time. CUDA and NCCL
// are DOUBLES (tests/doubles), which inject it: this proves our logic, and nothing about a GPU.
#include <dlfcn.h>
#include <signal.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "tests/multi/gpu/gpu_array.h"

namespace roda::test {
namespace {

using Shape = std::vector<std::int64_t>;

const char* setting(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

bool is_culprit() { return rank() == size() - 1; }

void expect_cause(const Outcome& o) {
  EXPECT_LT(o.code, 0);
  EXPECT_NE(o.message.find(setting("GPU_TEST_EXPECTS")), std::string::npos) << o.message;
}

// What the CUDA double says from now on to every call of this process; 0: nothing.
void fail_kernels(int result) {
  void* driver = dlopen(setting("RODA_TEST_CUDA_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
  reinterpret_cast<void (*)(int)>(dlsym(driver, "roda_cuda_double_set_error"))(result);
}

// Rounds of two buckets, of a kind each, until something goes wrong.
Outcome run_until_it_fails(int rounds) {
  constexpr std::size_t kTensors = 6;
  const Shape shape{40000};
  Outcome o;
  for (int round = 0; round < rounds && o.code == RODA_OK; ++round) {
    std::vector<std::unique_ptr<GpuArray>> data;
    std::vector<std::string> names;
    std::vector<roda_op> ops;
    for (std::size_t t = 0; t < kTensors; ++t) names.push_back("fault" + std::to_string(t));
    for (std::size_t t = 0; t < kTensors; ++t) {
      const std::vector<float> values(40000, 0);
      data.push_back(std::make_unique<GpuArray>(values.data(), values.size() * sizeof(float)));
      const int dtype = t % 2 == 0 ? RODA_FLOAT32 : RODA_INT32;
      ops.push_back(gpu_op(RODA_ALLREDUCE, names[t], shape, data[t]->data(), data[t]->data(), dtype));
    }
    roda_handle handle = 0;
    o = submit(ops, &handle);
    if (o.code == RODA_OK) o = wait_on_stream(handle);
  }
  return o;
}

// Injected by the double's settings: errors, hangs, too little memory.
TEST(GpuFaults, EveryRankHearsTheCause) {
  expect_cause(run_until_it_fails(1000));
  // Sticky: what comes later ends with the same cause.
  expect_cause(run_until_it_fails(1));
  std::vector<float> host(4, 1);
  const Shape shape{4};
  expect_cause(run(make_op(RODA_ALLREDUCE, "in host memory", shape, host.data(), host.data())));
}

TEST(GpuFaults, ARankDies) {
  if (is_culprit()) {
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));  // some of the rounds are done by then
      raise(SIGKILL);
    }).detach();
  }
  const Outcome o = run_until_it_fails(1000000);
  EXPECT_LT(o.code, 0);
  EXPECT_NE(o.message.find("ank " + std::to_string(size() - 1)), std::string::npos) << o.message;
}

// A kernel of the program's own fails on one rank; CUDA says so at our next call.
TEST(GpuFaults, AKernelOfTheProgramFails) {
  ASSERT_EQ(run_until_it_fails(3).code, RODA_OK);
  if (is_culprit()) {
    const auto data = on_gpu(std::vector<float>(1000, 1));
    const Shape shape{1000};
    fail_kernels(719);
    // Told at once, and to this rank alone: the program's own failure, which ends as that.
    roda_handle handle = 0;
    const Outcome o = submit({gpu_op(RODA_ALLREDUCE, "after", shape, data.data(), data.data())}, &handle);
    fail_kernels(0);
    expect_cause(o);
  }
  const Outcome o = run(make_op(RODA_BARRIER, "", {}, nullptr, nullptr));
  EXPECT_EQ(o.code, RODA_OK) << o.message;
}

// The same while a collective is under way: the engine meets it, and the job ends with it on every rank.
TEST(GpuFaults, AKernelOfTheProgramFailsInMidCollective) {
  ASSERT_EQ(run_until_it_fails(2).code, RODA_OK);
  const auto data = on_gpu(std::vector<float>(1000, 1));
  const Shape shape{1000};
  roda_handle handle = 0;
  if (is_culprit()) {
    ASSERT_EQ(submit({gpu_op(RODA_ALLREDUCE, "mid", shape, data.data(), data.data())}, &handle).code, RODA_OK);
    fail_kernels(719);
    ASSERT_EQ(run(make_op(RODA_BARRIER, "", {}, nullptr, nullptr)).code, RODA_OK);
    const Outcome o = wait(handle);
    wait_for_engine();
    expect_cause(o);
    fail_kernels(0);
    return;
  }
  ASSERT_EQ(run(make_op(RODA_BARRIER, "", {}, nullptr, nullptr)).code, RODA_OK);
  expect_cause(run_gpu(gpu_op(RODA_ALLREDUCE, "mid", shape, data.data(), data.data())));
}

}  // namespace
}  // namespace roda::test
