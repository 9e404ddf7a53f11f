#include "plugins/devices/cuda/kernels.h"

#include "plugins/devices/cuda/image.h"
#include "plugins/devices/cuda/kernel_arguments.h"

namespace roda::cuda_device {
namespace {

constexpr const char* kNames[Kernels::kCount] = {"roda_pack",          "roda_unpack", "roda_pack_scaled",
                                                 "roda_unpack_scaled", "roda_scale",  "roda_reduce"};
// The largest first dimension of a grid.
constexpr unsigned long long kMostBlocks = 0x7fffffff;

}  // namespace

std::string kernels_built() {
  return kernel_image().bytes == nullptr ? std::string("no kernels: ") + kernel_image().description
                                         : std::string("kernels for ") + kernel_image().description;
}

Status Kernels::load() {
  const MutexLock lock(mutex_);
  if (is_loaded_) return status_;
  is_loaded_ = true;
  const Image& image = kernel_image();
  if (image.bytes == nullptr)
    return status_ = Status::unsupported(std::string("CUDA: no kernels: ") + image.description);
  if (driver_.is_hip) return status_ = Status::unsupported("HIP: there are no kernels for AMD's GPUs in this version");
  cuda::Module module = nullptr;
  const cuda::Result result = driver_.ModuleLoadData(&module, image.bytes);
  if (result == cuda::kUnsupportedPtx || result == cuda::kNoBinaryForGpu || result == cuda::kInvalidImage) {
    return status_ = Status::unsupported(driver_.explain(result, "the kernels") + "; they were built for " +
                                         image.description + ", and the driver serves CUDA " +
                                         cuda::version_text(driver_.version) + " at most: update the driver");
  }
  status_ = driver_.check(result, "loading the kernels");
  for (int i = 0; i < kCount && status_.ok(); ++i) {
    status_ = driver_.check(driver_.ModuleGetFunction(&functions_[i], module, kNames[i]), kNames[i]);
  }
  return status_;
}

Status Kernels::launch(Name name, unsigned long long blocks, const void* argument, cuda::Stream stream) {
  RODA_RETURN_IF_ERROR(load());
  if (blocks == 0) return {};
  if (blocks > kMostBlocks) return Status::invalid(std::string(kNames[name]) + ": too much for one launch");
  void* parameters[] = {const_cast<void*>(argument)};
  const cuda::Result result = driver_.LaunchKernel(functions_[name], static_cast<unsigned>(blocks), 1, 1, kThreads, 1,
                                                   1, 0, stream, parameters, nullptr);
  return driver_.check(result, kNames[name]);
}

}  // namespace roda::cuda_device
