// Tables of arguments for kernels: written by the host into pinned memory, copied in stream order to the device's.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "plugins/base/cuda/driver.h"
#include "plugins/base/mutex.h"

namespace roda::cuda_device {

// Of one GPU, whose context is current. Any thread.
class Tables {
 public:
  explicit Tables(const cuda::Driver& driver) : driver_(driver) {}

  // A point in a stream, behind the last of the places that it stands for. One event serves several: recording one
  // costs as much as using a place.
  struct Point {
    cuda::Event event = nullptr;
    bool is_recorded = false;
  };
  // A place for one table, used until the work that was put on the stream before give_back() is through.
  struct Place {
    void* host = nullptr;
    cuda::Address device = 0;
    std::size_t capacity = 0;
    std::shared_ptr<Point> used;  // null: by nobody yet
  };
  Status take(std::size_t bytes, Place* place);
  // Puts the copy of the first bytes to the device on the stream.
  Status upload(const Place& place, std::size_t bytes, cuda::Stream stream);
  void give_back(const Place& place, cuda::Stream stream);

 private:
  Status make(std::size_t bytes, Place* place);

  const cuda::Driver& driver_;
  Mutex mutex_;
  bool is_free(const Place& place) const RODA_REQUIRES(mutex_);
  struct Open {
    std::shared_ptr<Point> point;  // not recorded
    int places = 0;                // that it stands for so far
  };
  std::vector<Place> places_ RODA_GUARDED_BY(mutex_);  // not taken; perhaps still under way
  std::map<cuda::Stream, Open> open_ RODA_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Point>> spare_ RODA_GUARDED_BY(mutex_);
};

}  // namespace roda::cuda_device
