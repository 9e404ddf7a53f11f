// The kernels of one GPU, loaded when the first is wanted.
#pragma once

#include <string>

#include "plugins/base/cuda/driver.h"
#include "plugins/base/mutex.h"

namespace roda::cuda_device {

// Any thread; the GPU's context is current.
class Kernels {
 public:
  enum Name { kPack, kUnpack, kPackScaled, kUnpackScaled, kScale, kReduce, kCount };

  explicit Kernels(const cuda::Driver& driver) : driver_(driver) {}

  // `argument` is the kernel's struct. An error says why there are no kernels, or what the launch ran into.
  Status launch(Name name, unsigned long long blocks, const void* argument, cuda::Stream stream);
  // Why there are none here; OK when there are.
  Status load();

 private:
  const cuda::Driver& driver_;
  Mutex mutex_;
  bool is_loaded_ RODA_GUARDED_BY(mutex_) = false;
  Status status_ RODA_GUARDED_BY(mutex_);
  cuda::Function functions_[kCount] = {};
};

// Whether this plugin was built with kernels, and for what; for people.
std::string kernels_built();

}  // namespace roda::cuda_device
