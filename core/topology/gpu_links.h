// What only the GPUs' driver knows: NVLinks, peers, memory, compute capability.
#pragma once

#include <string>

#include "algorithms/topology/machine.h"
#include "plugins/base/status.h"

namespace roda::topology {

// Completes machine->gpus by NVML, or by CUDA's driver library where there is no NVML (no links then). GPUs that the
// driver does not show to this process are dropped, and counted in `absent`. When neither answers, the GPUs stay as
// they were and `absent` says why. Can take long: see DiscoverOptions. CUDA, once asked, is unusable in forked
// children.
void find_gpu_links(const std::string& nvml_file, const std::string& cuda_file, Machine* machine);

// Each of the two. On an error the machine is unchanged.
Status ask_nvml(const std::string& file, Machine* machine);
Status ask_cuda(const std::string& file, Machine* machine);

// The GPUs that the driver shows, in its order, each with the place that the kernel's list knows for its address.
void keep_places(const Machine& machine, std::vector<Gpu>* shown);

}  // namespace roda::topology
