// Whether the devices reach a GPU's memory: found by registering some of it.
#pragma once

#include <roda/abi/host.h>

#include "transports/verbs/memory.h"

namespace roda::verbs {

// `gpu`: its number in this process, which has CUDA started already. False where CUDA, or one of the devices, doesn't
// offer it: neither a dma-buf nor the kernel's peer-memory module.
bool reaches_gpu(const roda_host* host, const Devices& devices, int gpu);

}  // namespace roda::verbs
