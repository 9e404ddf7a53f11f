// Data on GPUs over a transport whose messages take a GPU's memory: not a byte of them is staged, and where the
// transport doesn't take it the same plan stages them. CUDA, NCCL and that transport are DOUBLES (tests/doubles): this
// proves our logic, and nothing about a GPU.
#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "tests/multi/gpu/gpu_array.h"

namespace roda::test {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr std::size_t kElements = 1'000'000;

unsigned long long staged_bytes() {
  void* driver = dlopen(std::getenv("RODA_TEST_CUDA_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<unsigned long long (*)()>(dlsym(driver, "roda_cuda_double_staged_bytes"))();
}

// Whether this rank's transport takes the GPUs' memory.
bool is_direct() {
  const char* text = std::getenv("RODA_TCP_CUDA_DOUBLE");
  const std::string setting = text == nullptr ? "" : text;
  return setting != "0" && (setting != "odd" || std::atoi(std::getenv("HOROVOD_RANK")) % 2 == 1);
}

// Of a broadcast only one rank of each host does.
bool goes_between_hosts(int collective) {
  return collective != RODA_BROADCAST || roda_local_size() == size() || roda_local_rank() == 0;
}

class GpuDirect : public ::testing::TestWithParam<int> {};

// The collective of one large tensor on every rank; what was staged for it.
unsigned long long staged_for(int collective, Outcome* outcome) {
  const Shape shape{static_cast<std::int64_t>(kElements)};
  const auto data = on_gpu(std::vector<float>(kElements, static_cast<float>(rank() + 1)));
  void* output = collective == RODA_ALLREDUCE || collective == RODA_BROADCAST ? data.data() : nullptr;
  const std::string name = std::string("direct ") + roda_collective_name(collective);
  roda_op op = gpu_op(collective, name, shape, data.data(), output);
  std::vector<std::int32_t> splits(static_cast<std::size_t>(size()), static_cast<std::int32_t>(kElements) / size());
  splits[0] += static_cast<std::int32_t>(kElements) % size();
  if (collective == RODA_ALLTOALL) {
    op.splits = splits.data();
    op.num_splits = size();
  }
  const unsigned long long before = staged_bytes();
  *outcome = run_gpu(op);
  const unsigned long long staged = staged_bytes() - before;
  if (output == nullptr || !outcome->message.empty()) return staged;
  const float ranks = static_cast<float>(size() * (size() + 1) / 2);
  EXPECT_EQ(data.read<float>(), std::vector<float>(kElements, collective == RODA_ALLREDUCE ? ranks : 1.0f));
  return staged;
}

TEST_P(GpuDirect, StagesNothingWhereTheTransportTakesTheMemory) {
  Outcome first, second;
  const unsigned long long staged = staged_for(GetParam(), &first);
  ASSERT_EQ(first.code, RODA_OK) << first.message;
  const unsigned long long again = staged_for(GetParam(), &second);
  ASSERT_EQ(second.code, RODA_OK) << second.message;
  // Kernels' tables are copied to GPUs, too: some bytes for each launch.
  constexpr unsigned long long kTables = 64 << 10;
  for (const unsigned long long bytes : {staged, again}) {
    const bool is_some = bytes > kElements * sizeof(float) / static_cast<std::size_t>(size());
    EXPECT_TRUE(is_direct() || !goes_between_hosts(GetParam()) ? bytes < kTables : is_some)
        << bytes << " bytes were staged";
  }
}

INSTANTIATE_TEST_SUITE_P(Collectives, GpuDirect,
                         ::testing::Values(int{RODA_ALLREDUCE}, int{RODA_BROADCAST}, int{RODA_ALLGATHER},
                                           int{RODA_REDUCESCATTER}, int{RODA_ALLTOALL}),
                         [](const auto& info) { return roda_collective_name(info.param); });

}  // namespace
}  // namespace roda::test
