// The kernels' own source, compiled for the host: its threads share nothing and wait for nobody, so that they can run
// one after the other. This proves what the source computes and where it reads and writes, not what nvcc and a GPU make
// of it.
#include <cuda_runtime_api.h>

namespace {

struct Index {
  unsigned x;
};
thread_local Index blockIdx, threadIdx, blockDim;

}  // namespace

// What a thread does not load it does not use either, which gcc can't see.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include "plugins/devices/cuda/kernels.cu"
#pragma GCC diagnostic pop
#include "tests/doubles/cuda/kernels.h"

namespace roda::cuda_double {
namespace {

template <typename Arguments, void (*kKernel)(Arguments)>
void run(unsigned blocks, unsigned threads, const void* argument) {
  blockDim.x = threads;
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
    for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) kKernel(*static_cast<const Arguments*>(argument));
  }
}

constexpr struct {
  const char* name;
  Run run;
} kSourceKernels[] = {
    {"roda_pack", run<PackArguments, roda_pack>},
    {"roda_unpack", run<PackArguments, roda_unpack>},
    {"roda_pack_scaled", run<PackScaledArguments, roda_pack_scaled>},
    {"roda_unpack_scaled", run<PackScaledArguments, roda_unpack_scaled>},
    {"roda_scale", run<ScaleArguments, roda_scale>},
    {"roda_reduce", run<ReduceArguments, roda_reduce>},
    {"roda_widen", run<AverageArguments, roda_widen>},
    {"roda_average", run<AverageArguments, roda_average>},
};

}  // namespace

Run find_source_kernel(const std::string& name) {
  for (const auto& [known, run] : kSourceKernels) {
    if (name == known) return run;
  }
  return nullptr;
}

}  // namespace roda::cuda_double
