// Faults that are seeded into what the engine does on GPUs, one at a time: each place where a stream waits for an
// event, each event, and what the host takes for over. CUDA and NCCL are DOUBLES (tests/doubles), and this shows what
// they find, not that a GPU would run well.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "tests/doubles/cuda/double.h"
#include "tests/multi/gpu/gpu_array.h"

namespace roda::test {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr int kNone = 1 << 30;  // no such place: they are counted only

void* of_double(const char* name) {
  return dlsym(dlopen(std::getenv("RODA_TEST_CUDA_LIBRARY"), RTLD_NOW | RTLD_NOLOAD), name);
}
#define OF_DOUBLE(function) reinterpret_cast<decltype(&function)>(of_double(#function))

int mistakes() {
  char last[400] = {};
  const int count = OF_DOUBLE(roda_cuda_double_mistakes)(last, sizeof last);
  if (count > 0 && std::getenv("GPU_TEST_SAYS") != nullptr) std::printf("%s\n", last);
  return count;
}
int seed(int fault, int which) { return OF_DOUBLE(roda_cuda_double_seed)(fault, which); }

// Two buckets that share the engine's buffers, one behind the other, and a tensor alone. The mistakes that this
// rank's double found.
int run_round(bool has_right_data = true) {
  for (const std::size_t tensors : {5, 4, 1}) {
    const Shape shape{12000};
    std::vector<std::unique_ptr<GpuArray>> data;
    std::vector<roda_op> ops;
    const std::string names[] = {"a", "b", "c", "d", "e"};
    for (std::size_t t = 0; t < tensors; ++t) {
      data.push_back(std::make_unique<GpuArray>(std::vector<float>(12000, 1).data(), 12000 * sizeof(float)));
      ops.push_back(gpu_op(RODA_ALLREDUCE, names[t], shape, data.back()->data(), data.back()->data()));
    }
    roda_handle handle = 0;
    Outcome o = submit(ops, &handle);
    if (o.code == RODA_OK) o = wait_on_stream(handle);
    EXPECT_EQ(o.code, RODA_OK) << o.message;
    if (!has_right_data) continue;
    for (const auto& array : data) EXPECT_EQ(array->read<float>()[7], static_cast<float>(size()));
  }
  return mistakes();
}

int most(int mine) {
  std::int32_t value = mine;
  const Shape shape{1};
  roda_op op = make_op(RODA_ALLREDUCE, "most", shape, &value, &value, RODA_INT32);
  op.op = RODA_MAX;
  EXPECT_EQ(run(op).code, RODA_OK);
  return value;
}

struct Found {
  int seeded = 0, found = 0;
};

// One fault of the kind in each place.
Found seed_all(int fault) {
  Found result;
  seed(fault, kNone);
  run_round();
  const int places = most(seed(RODA_CUDA_DOUBLE_NO_FAULT, 0));
  for (int place = 1; place <= places; ++place) {
    seed(fault, place);
    const int count = run_round();
    const bool was_met = seed(RODA_CUDA_DOUBLE_NO_FAULT, 0) >= place;
    result.seeded += was_met ? 1 : 0;
    result.found += was_met && count > 0 ? 1 : 0;
    run_round();  // orders all again
  }
  return result;
}

class GpuSeeded : public ::testing::Test {
 protected:
  void SetUp() override {
    OF_DOUBLE(roda_cuda_double_keep_mistakes)(1);
    ASSERT_EQ(run_round(), 0);
  }
  static void expect_all(const char* what, int fault) {
    const Found faults = seed_all(fault);
    std::printf("%s: %d seeded, %d found\n", what, faults.seeded, faults.found);
    EXPECT_GE(faults.seeded, 5);
    EXPECT_EQ(faults.found, faults.seeded);
  }
};

TEST_F(GpuSeeded, EveryWaitThatIsLeftOutIsFound) { expect_all("no wait", RODA_CUDA_DOUBLE_NO_WAIT); }

TEST_F(GpuSeeded, EveryEventThatIsRecordedTooEarlyIsFound) { expect_all("early event", RODA_CUDA_DOUBLE_EARLY_EVENT); }

// Where the host's processor sends and receives what the GPU copies. Last: what was read too early is wrong.
TEST_F(GpuSeeded, WhatTheHostTakesForOverIsFound) {
  if (std::getenv("GPU_TEST_HOST_SENDS") == nullptr) GTEST_SKIP() << "the double doesn't see who sends";
  seed(RODA_CUDA_DOUBLE_NO_HOST_WAIT, 0);
  const int found = run_round(false);
  const int seeded = seed(RODA_CUDA_DOUBLE_NO_FAULT, 0);
  std::printf("no host wait: %d seeded at once, %d found\n", seeded, found);
  EXPECT_GT(seeded, 0);
  EXPECT_GT(found, 0);
}

}  // namespace
}  // namespace roda::test
