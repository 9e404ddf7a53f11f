// Device memory that RDMA devices reach directly, by a descriptor that the GPU's driver gives out for it.
#pragma once

#include <cstddef>

#include "transports/verbs/device.h"

namespace roda::verbs {

// A registration of CUDA memory by dma-buf; null where CUDA's driver, the range or the RDMA device does not offer it.
ibv_mr* register_dma_buf(const Device& device, void* base, std::size_t bytes, int access);

}  // namespace roda::verbs
