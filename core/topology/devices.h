// The devices of a machine as the kernel lists them: quick, and nothing is opened.
#pragma once

#include "algorithms/topology/machine.h"
#include "core/topology/kernel_files.h"

namespace roda::topology {

constexpr std::size_t kMostDevices = 64;  // of each kind; a note in `absent` counts the rest

// Interfaces with a device behind them; where there is none (in a container), those that are up. Loopback never.
void find_nics(const KernelFiles& files, Machine* machine);
void find_rdma_devices(const KernelFiles& files, Machine* machine);
// GPUs for computing (NVIDIA, AMD) on the PCI bus: their places, and their model where the driver tells.
void find_gpus(const KernelFiles& files, Machine* machine);

}  // namespace roda::topology
