// Buffers of the engine's on GPUs are registered with NCCL: once for each communicator, on every rank or on none, until
// they go; as windows where the communicator works on nothing else. CUDA and NCCL are DOUBLES (tests/doubles), which
// keep account: this proves our logic, and nothing about a GPU.
#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/doubles/nccl/double.h"
#include "tests/multi/gpu/gpu_array.h"

namespace roda::test {
namespace {

using Shape = std::vector<std::int64_t>;
using Counts = roda_nccl_double_registrations;

constexpr std::int64_t kElements = 48000;  // for 2, 3 or 4 ranks, in equal parts

Counts counts() {
  Counts counts{};
  void* library = dlopen(std::getenv("RODA_NCCL_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return counts;
  reinterpret_cast<void (*)(Counts*)>(dlsym(library, "roda_nccl_double_count"))(&counts);
  return counts;
}

std::string expected() { return std::getenv("GPU_TEST_REGISTERS"); }
bool is_on() { return expected() != "nothing"; }

// One launch of that many tensors.
Outcome run_bucket(std::size_t tensors, std::int32_t set = 0, int collective = RODA_ALLREDUCE) {
  const bool is_allreduce = collective == RODA_ALLREDUCE;
  const Shape shape{is_allreduce ? kElements : kElements / 40};  // of the others only small tensors are fused
  std::vector<std::unique_ptr<GpuArray>> data;
  std::vector<std::string> names;
  std::vector<roda_op> ops;
  for (std::size_t t = 0; t < tensors; ++t) names.push_back("buffer" + std::to_string(t));
  for (std::size_t t = 0; t < tensors; ++t) {
    const std::vector<float> values(static_cast<std::size_t>(shape[0]), 1);
    data.push_back(std::make_unique<GpuArray>(values.data(), values.size() * sizeof(float)));
    ops.push_back(gpu_op(collective, names[t], shape, data[t]->data(), is_allreduce ? data[t]->data() : nullptr));
    ops.back().process_set = set;
  }
  roda_handle handle = 0;
  const Outcome o = submit(ops, &handle);
  return o.code == RODA_OK ? wait_on_stream(handle) : o;
}

// The least and the most of a number over all ranks.
std::pair<int, int> range_of(int mine) {
  std::int32_t values[2] = {mine, -mine};
  const Shape shape{2};
  roda_op op = make_op(RODA_ALLREDUCE, "range", shape, values, values, RODA_INT32);
  op.op = RODA_MIN;
  EXPECT_EQ(run(op).code, RODA_OK);
  return {values[0], -values[1]};
}

// Where anybody's buffers are registered everybody's are, for every collective of the job since then. A rank that
// joined waits for no GPU: its part of the last collectives may still be on its way to NCCL when its join has ended.
void expect_the_same_everywhere(const Counts& before) {
  for (int attempt = 0;; ++attempt) {
    const auto used = range_of(counts().used - before.used), halves = range_of(counts().halves - before.halves);
    if ((used.first != used.second || halves.first != halves.second) && attempt < 20000) continue;
    EXPECT_EQ(used.first, used.second);
    EXPECT_EQ(halves.first, halves.second);
    return;
  }
}

TEST(GpuBuffers, AreRegisteredOncePerCommunicator) {
  ASSERT_EQ(run_bucket(6).code, RODA_OK);
  ASSERT_EQ(run_bucket(6).code, RODA_OK);
  const Counts before = counts();
  for (int round = 0; round < 20; ++round) ASSERT_EQ(run_bucket(6).code, RODA_OK);
  const Counts after = counts();
  EXPECT_LE(after.made, before.made + 1) << "launches in flight have a buffer each, and no more";
  EXPECT_EQ(after.used > before.used, is_on());
  expect_the_same_everywhere(before);
}

TEST(GpuBuffers, AreRegisteredAgainWhenTheyGrow) {
  const Counts before = counts();
  for (int round = 0; round < 3; ++round) ASSERT_EQ(run_bucket(30).code, RODA_OK);
  const Counts after = counts();
  EXPECT_EQ(after.made > before.made, is_on());
  EXPECT_EQ(after.windows > before.windows, expected() == "windows");
  EXPECT_EQ(after.undone > before.undone, expected() == "buffers") << "what a group lends stays: see memory_alloc";
  EXPECT_EQ(after.stale, 0);
  expect_the_same_everywhere(before);
}

TEST(GpuBuffers, ServeAllgathersAndReduceScatters) {
  const Counts before = counts();
  for (const int collective : {RODA_ALLGATHER, RODA_REDUCESCATTER}) {
    const int used = counts().used;
    const Outcome o = run_bucket(4, 0, collective);
    ASSERT_EQ(o.code, RODA_OK) << o.message;
    EXPECT_EQ(counts().used > used, is_on()) << roda_collective_name(collective);
  }
  expect_the_same_everywhere(before);
}

// The library's own end of a communicator takes its time, on a thread of its own.
void expect_communicators(int wanted) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (counts().communicators > wanted && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(counts().communicators, wanted);
}

TEST(GpuBuffers, AreRegisteredWithEachProcessSet) {
  if (size() < 3) GTEST_SKIP() << "needs three ranks";
  ASSERT_EQ(run_bucket(6).code, RODA_OK);
  const int communicators = counts().communicators;
  const std::int32_t ranks[] = {0, 1};
  const std::int32_t set = roda_add_process_set(ranks, 2);
  if (rank() < 2) {
    const Counts before = counts();
    for (int round = 0; round < 3; ++round) ASSERT_EQ(run_bucket(6, set).code, RODA_OK);
    EXPECT_EQ(counts().used > before.used, is_on());
  }
  EXPECT_EQ(roda_remove_process_set(set), set);
  expect_communicators(communicators);
}

// They hold memory of the GPU.
TEST(GpuBuffers, CommunicatorsGoWithTheirProcessSet) {
  if (size() < 3) GTEST_SKIP() << "needs three ranks";
  ASSERT_EQ(run_bucket(6).code, RODA_OK);
  const int before = counts().communicators;
  const std::int32_t ranks[] = {0, 1};
  for (int round = 0; round < 3; ++round) {
    const std::int32_t set = roda_add_process_set(ranks, 2);
    if (rank() < 2) {
      for (int launch = 0; launch < 3; ++launch) ASSERT_EQ(run_bucket(6, set).code, RODA_OK);
      EXPECT_GT(counts().communicators, before);
    }
    EXPECT_EQ(roda_remove_process_set(set), set);
    expect_communicators(before);
    ASSERT_EQ(run_bucket(6).code, RODA_OK) << "other sets are not touched";
  }
  EXPECT_EQ(counts().stale, 0);
}

// A tensor that travels alone is the program's, and not registered: nor is what a rank that joined has in its place.
TEST(GpuBuffers, AreNotMixedWithTensorsOfTheProgram) {
  ASSERT_EQ(run_bucket(6).code, RODA_OK);
  const Counts before = counts();
  if (rank() != 0) {
    ASSERT_EQ(run_bucket(1).code, RODA_OK);
    ASSERT_EQ(run_bucket(6).code, RODA_OK);
  }
  roda_op join = make_op(RODA_JOIN, "", {}, nullptr, nullptr);
  join.device = own_gpu();
  ASSERT_EQ(run(join).code, RODA_OK);
  expect_the_same_everywhere(before);
  EXPECT_EQ(counts().used > before.used, is_on()) << "a bucket's buffer is registered on a rank that joined, too";
}

TEST(ZGpuBuffers, AreGivenUpBeforeTheirMemoryAndTheirCommunicator) {
  roda_shutdown();
  roda_error error{};
  error.struct_size = sizeof error;
  ASSERT_EQ(roda_init(nullptr, &error), RODA_OK) << error.message;  // the engine before is gone now
  const Counts end = counts();
  EXPECT_EQ(end.made, end.undone);
  EXPECT_EQ(end.left, 0);
  EXPECT_EQ(end.stale, 0);
  ASSERT_EQ(run_bucket(6).code, RODA_OK);
}

}  // namespace
}  // namespace roda::test
