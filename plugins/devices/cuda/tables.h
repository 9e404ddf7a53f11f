// Tables of arguments for kernels: written by the host into pinned memory, copied in stream order to the device's.
#pragma once

#include <bit>
#include <cstddef>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "plugins/base/cuda/driver.h"
#include "plugins/base/mutex.h"

namespace roda::cuda_device {

inline constexpr std::size_t kSmallest = 16 * 1024;
inline constexpr int kPlacesOfPoint = 8;

// The tables of one GPU, whose context is current. Any thread.
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
  Status take(std::size_t bytes, Place* place) {
    {
      const MutexLock lock(mutex_);
      for (Place& known : places_) {
        if (known.capacity < bytes || !is_free(known)) continue;
        *place = std::exchange(known, places_.back());
        places_.pop_back();
        if (place->used.use_count() == 1) spare_.push_back(place->used);
        place->used.reset();
        return {};
      }
    }
    return make(bytes, place);
  }
  // Puts the copy of the first bytes to the device on the stream.
  Status upload(const Place& place, std::size_t bytes, cuda::Stream stream) {
    return driver_.check(driver_.MemcpyAsync(place.device, reinterpret_cast<cuda::Address>(place.host), bytes, stream),
                         "cuMemcpyAsync");
  }
  // Without an event, or where recording fails, as it does where the device runs nothing any more, it is not used
  // again.
  void give_back(const Place& place, cuda::Stream stream) {
    const MutexLock lock(mutex_);
    Open& open = open_[stream];
    if (open.point == nullptr) {
      if (spare_.empty()) {
        spare_.push_back(std::make_shared<Point>());
        driver_.EventCreate(&spare_.back()->event, cuda::kEventDisableTiming);
      }
      open.point = std::move(spare_.back());
      spare_.pop_back();
      open.point->is_recorded = false;
    }
    places_.push_back(place);
    places_.back().used = open.point;
    if (++open.places < kPlacesOfPoint) return;
    open.point->is_recorded = driver_.EventRecord(open.point->event, stream) == cuda::kSuccess;
    open = Open();
  }

 private:
  Status make(std::size_t bytes, Place* place) {
    Place made;
    made.capacity = std::bit_ceil(bytes < kSmallest ? kSmallest : bytes);
    const std::string what = "a table of " + std::to_string(made.capacity) + " bytes";
    Status status = driver_.check(driver_.MemHostAlloc(&made.host, made.capacity, cuda::kHostAllocPortable), what);
    if (status.ok()) {
      status = driver_.check(driver_.MemAlloc(&made.device, made.capacity), what);
      if (!status.ok()) driver_.MemFreeHost(made.host);
    }
    if (status.ok()) *place = made;
    return status;
  }

  const cuda::Driver& driver_;
  Mutex mutex_;
  bool is_free(const Place& place) const RODA_REQUIRES(mutex_) {
    if (place.used == nullptr) return true;
    return place.used->is_recorded && driver_.EventQuery(place.used->event) != cuda::kNotReady;
  }
  struct Open {
    std::shared_ptr<Point> point;  // not recorded
    int places = 0;                // that it stands for so far
  };
  std::vector<Place> places_ RODA_GUARDED_BY(mutex_);  // not taken; perhaps still under way
  std::map<cuda::Stream, Open> open_ RODA_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Point>> spare_ RODA_GUARDED_BY(mutex_);
};

}  // namespace roda::cuda_device
