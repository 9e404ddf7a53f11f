// What a device turns out to be able to do, by trial.
//
// Owned by the engine's DeviceStreams, one for each device, for as long as the streams; launches reach it through their
// DeviceQueue. Threads: the holder of the baton.
#pragma once

#include <optional>

namespace roda::execute {

struct DeviceQueue;

class DeviceAbilities {
 public:
  // Whether kernels run there: without any the device copies, and nothing else. Tried at the first call. Where there
  // was no memory to try it with, the answer is no, and the next call tries again.
  bool reduces(const DeviceQueue& queue);

 private:
  std::optional<bool> reduces_;
};

}  // namespace roda::execute
