#include "core/execute/device/device_abilities.h"

#include "core/execute/device/device_queue.h"

namespace roda::execute {

bool DeviceAbilities::reduces(const DeviceQueue& queue) {
  if (reduces_.has_value()) return *reduces_;
  DeviceMemory one;
  if (!one.reserve(queue, DeviceMemory::Place::kDevice, 64).ok()) return false;
  const int code =
      queue.device->reduce(one.data(), one.data(), one.data(), 1, RODA_FLOAT32, RODA_MAX, nullptr, nullptr);
  reduces_ = code == RODA_OK;
  return *reduces_;
}

}  // namespace roda::execute
