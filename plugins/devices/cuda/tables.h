// Tables of arguments for kernels: written by the host into pinned memory, copied in stream order to the device's.
#pragma once

#include <cstddef>
#include <vector>

#include "plugins/base/cuda/driver.h"
#include "plugins/base/mutex.h"

namespace roda::cuda_device {

// Of one GPU, whose context is current. Any thread.
class Tables {
 public:
  explicit Tables(const cuda::Driver& driver) : driver_(driver) {}

  // A place for one table, used until the work that was put on the stream before give_back() is through.
  struct Place {
    void* host = nullptr;
    cuda::Address device = 0;
    std::size_t capacity = 0;
    cuda::Event used = nullptr;
  };
  Status take(std::size_t bytes, Place* place);
  // Puts the copy of the first bytes to the device on the stream.
  Status upload(const Place& place, std::size_t bytes, cuda::Stream stream);
  void give_back(const Place& place, cuda::Stream stream);

 private:
  Status make(std::size_t bytes, Place* place);

  const cuda::Driver& driver_;
  Mutex mutex_;
  std::vector<Place> places_ RODA_GUARDED_BY(mutex_);  // not taken; perhaps still under way
};

}  // namespace roda::cuda_device
