#include "plugins/devices/cuda/tables.h"

#include <bit>
#include <cstdint>

namespace roda::cuda_device {
namespace {

constexpr std::size_t kSmallest = 16 * 1024;

}  // namespace

Status Tables::take(std::size_t bytes, Place* place) {
  {
    const MutexLock lock(mutex_);
    for (Place& known : places_) {
      if (known.capacity < bytes || driver_.EventQuery(known.used) == cuda::kNotReady) continue;
      *place = known;
      known = places_.back();
      places_.pop_back();
      return {};
    }
  }
  return make(bytes, place);
}

Status Tables::make(std::size_t bytes, Place* place) {
  Place made;
  made.capacity = std::bit_ceil(bytes < kSmallest ? kSmallest : bytes);
  const std::string what = "a table of " + std::to_string(made.capacity) + " bytes";
  RODA_RETURN_IF_ERROR(driver_.check(driver_.EventCreate(&made.used, cuda::kEventDisableTiming), "cuEventCreate"));
  Status status = driver_.check(driver_.MemHostAlloc(&made.host, made.capacity, cuda::kHostAllocPortable), what);
  if (status.ok()) {
    status = driver_.check(driver_.MemAlloc(&made.device, made.capacity), what);
    if (!status.ok()) driver_.MemFreeHost(made.host);
  }
  if (!status.ok()) {
    driver_.EventDestroy(made.used);
    return status;
  }
  *place = made;
  return {};
}

Status Tables::upload(const Place& place, std::size_t bytes, cuda::Stream stream) {
  return driver_.check(driver_.MemcpyAsync(place.device, reinterpret_cast<cuda::Address>(place.host), bytes, stream),
                       "cuMemcpyAsync");
}

void Tables::give_back(const Place& place, cuda::Stream stream) {
  // Where even that fails the device runs nothing any more.
  driver_.EventRecord(place.used, stream);
  const MutexLock lock(mutex_);
  places_.push_back(place);
}

}  // namespace roda::cuda_device
