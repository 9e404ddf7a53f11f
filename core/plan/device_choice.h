// Which transports may carry tensors on devices: HOROVOD_GPU_OPERATIONS and its forms for one collective each.
#pragma once

#include <vector>

#include "core/knobs/knobs.h"
#include "core/plan/carriers.h"
#include "plugins/base/status.h"
#include "plugins/loader/loader.h"

namespace roda::engine {

// The plugins that plans may be made with.
struct Offer {
  plugins::Loader& loader;  // opens what is named
  // The plans are for a cluster with GPUs that somebody described: what works on their memory is taken to be usable
  // there, whatever is missing on this machine.
  bool assumes_gpus = false;

  // Null: the plugin can't carry data.
  const roda_transport* transport(const plugins::PluginRecord& record) const;
  // Why the transport can't carry data here, as the end of a sentence about it; "" when it can.
  std::string why_unusable(const std::string& name) const;
  // "nccl: no libnccl.so.2" for each that is only taken to be usable.
  std::vector<std::string> assumptions() const;
};

// "shm+gloo" -> shm, gloo.
std::vector<std::string> names_in(const std::string& text);

// For every collective. What is named comes in that order, and must be usable; by default whatever works on a device's
// memory comes before `host`, which are those for host memory in their order.
Status choose_for_devices(const Knobs& knobs, const Offer& offer, const std::vector<const roda_transport*>& host,
                          Carriers::OnDevice* choices);

}  // namespace roda::engine
