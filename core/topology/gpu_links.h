// What only the GPUs' driver knows: NVLinks, peers, memory, compute capability.
#pragma once

#include <string>

#include "algorithms/topology/machine.h"

namespace roda::topology {

// Completes machine->gpus by NVML, or by CUDA's driver library where there is no NVML (no links then): names for the
// dynamic linker. GPUs that the driver does not show to this process are dropped, and counted in `absent`. When neither
// answers, the GPUs stay as they were and `absent` says why. Can take long: see DiscoverOptions. CUDA, once asked, is
// unusable in forked children.
void find_gpu_links(const std::string& nvml_file, const std::string& cuda_file, Machine* machine);

}  // namespace roda::topology
