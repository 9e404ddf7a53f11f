// Copies and kernels of the device entries; as <roda/abi/device.h> says.
#pragma once

#include <roda/abi/device.h>

namespace roda::cuda_device {

int32_t copy(void* to, const void* from, size_t bytes, void* stream, roda_error* error);
int32_t reduce(void* to, const void* a, const void* b, size_t count, int32_t dtype, int32_t op, void* stream,
               roda_error* error);
int32_t scale(void* data, size_t count, int32_t dtype, double factor, void* stream, roda_error* error);
int32_t pack(void* buffer, const roda_pack_item* items, size_t count, void* stream, roda_error* error);
int32_t unpack(const void* buffer, const roda_pack_item* items, size_t count, void* stream, roda_error* error);
int32_t pack_scaled(void* buffer, const roda_pack_item* items, size_t count, int32_t dtype, double factor, void* stream,
                    roda_error* error);
int32_t unpack_scaled(const void* buffer, const roda_pack_item* items, size_t count, int32_t dtype, double factor,
                      void* stream, roda_error* error);

}  // namespace roda::cuda_device
