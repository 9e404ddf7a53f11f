// Which transports may carry tensors on devices: HOROVOD_GPU_OPERATIONS and its forms for one collective each.
#pragma once

#include <map>
#include <vector>

#include "core/engine/planner.h"
#include "core/knobs/knobs.h"
#include "plugins/base/status.h"
#include "plugins/loader/loader.h"

namespace roda::engine {

// Why the transport can't carry data here, as the end of a sentence about it; "" when it can.
std::string why_unusable(const plugins::Loader& loader, const std::string& name);

// "shm+gloo" -> shm, gloo.
std::vector<std::string> names_in(const std::string& text);

// For every collective. What is named comes in that order, and must be usable; by default whatever works on a device's
// memory comes before `host`, which are those for host memory in their order.
Status choose_for_devices(const Knobs& knobs, const plugins::Loader& loader,
                          const std::vector<const roda_transport*>& host,
                          std::map<schedule::Collective, DeviceChoice>* choices);

}  // namespace roda::engine
