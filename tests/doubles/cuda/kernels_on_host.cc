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

constexpr Kernel kSourceKernels[] = {
    {"roda_pack", sizeof(PackArguments), run<PackArguments, roda_pack>},
    {"roda_unpack", sizeof(PackArguments), run<PackArguments, roda_unpack>},
    {"roda_pack_scaled", sizeof(PackScaledArguments), run<PackScaledArguments, roda_pack_scaled>},
    {"roda_unpack_scaled", sizeof(PackScaledArguments), run<PackScaledArguments, roda_unpack_scaled>},
    {"roda_scale", sizeof(ScaleArguments), run<ScaleArguments, roda_scale>},
    {"roda_reduce", sizeof(ReduceArguments), run<ReduceArguments, roda_reduce>},
};

}  // namespace

const Kernel* find_source_kernel(const std::string& name) {
  for (const Kernel& kernel : kSourceKernels) {
    if (name == kernel.name) return &kernel;
  }
  return nullptr;
}

}  // namespace roda::cuda_double
