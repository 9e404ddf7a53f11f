// The devices that this rank's tensors lie on, and the engine's streams on them.
#pragma once

#include <roda/abi/device.h>

#include <cstdint>
#include <map>
#include <vector>

#include "core/execute/device/device_abilities.h"
#include "core/execute/device/device_queue.h"
#include "plugins/base/status.h"

namespace roda::engine {

// Owned by the holder of the baton.
class DeviceStreams {
 public:
  // `device`: of the memory that is not the host's; null: there is none here. `slots`: streams of each device, which
  // launches take in turn.
  DeviceStreams(const roda_device* device, int slots) : device_(device), slots_(static_cast<std::size_t>(slots)) {}
  // Nothing may be under way.
  ~DeviceStreams();
  DeviceStreams(const DeviceStreams&) = delete;
  DeviceStreams& operator=(const DeviceStreams&) = delete;

  // The next stream of the device.
  Status next(std::int32_t number, execute::DeviceQueue* queue);

 private:
  struct Lanes {
    std::vector<void*> streams;
    std::size_t turn = 0;
    execute::DeviceAbilities abilities;
  };
  const roda_device* device_;
  std::size_t slots_;
  std::map<std::int32_t, Lanes> lanes_;
};

}  // namespace roda::engine
