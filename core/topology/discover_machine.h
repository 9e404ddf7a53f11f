// This machine, as a value.
#pragma once

#include <string>

#include "core/topology/cluster.h"

namespace roda::topology {

struct DiscoverOptions {
  // Asks the GPUs' driver for links and peers. Loading it can take a second where the driver keeps no state: not at
  // init.
  bool gpu_links = false;
  std::string root;  // /sys and /proc lie below it
  std::string hwloc = "libhwloc.so.15";
  std::string nvml = "libnvidia-ml.so.1";
  std::string cuda = "libcuda.so.1";
};

// Never fails: what can't be known is absent, with the reason. Blocks for milliseconds. Any thread, but not with a
// concurrent setenv.
Machine discover_machine(const DiscoverOptions& options = {});

// Where this process may run: the calling thread's affinity and the limit of its cgroups.
Binding this_binding();

}  // namespace roda::topology
