// This machine, as a value.
#pragma once

#include <string>

#include "algorithms/topology/topology.h"
#include "plugins/base/wait_policy.h"

namespace roda::topology {

struct DiscoverOptions {
  // Tells the CPUs' models too, and asks the GPUs' driver for links and peers: up to seconds where that keeps no state
  // between its users, so this is not for init. Without it the kernel's files are read, in half a millisecond on a
  // machine of two cores.
  bool thorough = false;
  std::string root;  // /sys and /proc lie below it
  std::string nvml = "libnvidia-ml.so.1";
  std::string cuda = "libcuda.so.1";
};

// Never fails: what can't be known is absent, with the reason. Blocks for milliseconds. Any thread, but not with a
// concurrent setenv.
Machine discover_machine(const DiscoverOptions& options = {});

// Where a process with this budget may run on the machine.
Binding binding(const Machine& machine, const CoreBudget& budget);

}  // namespace roda::topology
