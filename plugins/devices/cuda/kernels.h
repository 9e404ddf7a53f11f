// The kernels of one GPU, loaded when the first is wanted.
#pragma once

#include <string>

#include "plugins/base/cuda/driver.h"
#include "plugins/base/mutex.h"
#include "plugins/devices/cuda/kernel_arguments.h"

namespace roda::cuda_device {

// The kernels as the compiler made them, inside the plugin.
struct Image {
  const void* bytes;        // null: none were built
  const char* description;  // architectures and compiler; or why there are none
};
const Image& kernel_image();

// Any thread; the GPU's context is current.
class Kernels {
 public:
  enum Name { kPack, kUnpack, kPackScaled, kUnpackScaled, kScale, kReduce, kWiden, kAverage, kCount };

  explicit Kernels(const cuda::Driver& driver) : driver_(driver) {}

  // `argument` is the kernel's struct. An error says why there are no kernels, or what the launch ran into.
  Status launch(Name name, unsigned long long blocks, const void* argument, cuda::Stream stream) {
    RODA_RETURN_IF_ERROR(load());
    if (blocks == 0) return {};
    if (blocks > kMostBlocks) return Status::invalid(std::string(kNames[name]) + ": too much for one launch");
    void* parameters[] = {const_cast<void*>(argument)};
    const cuda::Result result = driver_.LaunchKernel(functions_[name], static_cast<unsigned>(blocks), 1, 1, kThreads, 1,
                                                     1, 0, stream, parameters, nullptr);
    return driver_.check(result, kNames[name]);
  }
  // Why there are none here; OK when there are.
  Status load() {
    const MutexLock lock(mutex_);
    if (is_loaded_) return status_;
    is_loaded_ = true;
    const Image& image = kernel_image();
    if (image.bytes == nullptr)
      return status_ = Status::unsupported(std::string("CUDA: no kernels: ") + image.description);
    if (driver_.is_hip)
      return status_ = Status::unsupported("HIP: there are no kernels for AMD's GPUs in this version");
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

 private:
  static constexpr const char* kNames[kCount] = {"roda_pack",  "roda_unpack", "roda_pack_scaled", "roda_unpack_scaled",
                                                 "roda_scale", "roda_reduce", "roda_widen",       "roda_average"};
  static constexpr unsigned long long kMostBlocks = 0x7fffffff;  // the largest first dimension of a grid

  const cuda::Driver& driver_;
  Mutex mutex_;
  bool is_loaded_ RODA_GUARDED_BY(mutex_) = false;
  Status status_ RODA_GUARDED_BY(mutex_);
  cuda::Function functions_[kCount] = {};
};

// Whether this plugin was built with kernels, and for what; for people.
inline std::string kernels_built() {
  return std::string(kernel_image().bytes == nullptr ? "no kernels: " : "kernels for ") + kernel_image().description;
}

}  // namespace roda::cuda_device
