// Memory of the device entries; as <roda/abi/device.h> says.
#pragma once

#include <roda/abi/device.h>

namespace roda::cuda_device {

int32_t alloc(int32_t device, size_t bytes, roda_memory* memory, roda_error* error);
int32_t alloc_staging(int32_t device, size_t bytes, roda_memory* memory, roda_error* error);
void release(roda_memory* memory);
int32_t device_of(const void* address);

}  // namespace roda::cuda_device
