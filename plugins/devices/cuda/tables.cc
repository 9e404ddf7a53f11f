#include "plugins/devices/cuda/tables.h"

#include <bit>
#include <cstdint>
#include <utility>

namespace roda::cuda_device {
namespace {

constexpr std::size_t kSmallest = 16 * 1024;
constexpr int kPlacesOfPoint = 8;

}  // namespace

Status Tables::take(std::size_t bytes, Place* place) {
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

bool Tables::is_free(const Place& place) const {
  if (place.used == nullptr) return true;
  return place.used->is_recorded && driver_.EventQuery(place.used->event) != cuda::kNotReady;
}

Status Tables::make(std::size_t bytes, Place* place) {
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

Status Tables::upload(const Place& place, std::size_t bytes, cuda::Stream stream) {
  return driver_.check(driver_.MemcpyAsync(place.device, reinterpret_cast<cuda::Address>(place.host), bytes, stream),
                       "cuMemcpyAsync");
}

// Without an event, or where recording fails, as it does where the device runs nothing any more, it is not used again.
void Tables::give_back(const Place& place, cuda::Stream stream) {
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

}  // namespace roda::cuda_device
