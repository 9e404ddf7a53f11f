// The entries of the device's table, each as <roda/abi/device.h> says.
#pragma once

#include <roda/abi/device.h>

namespace roda::cuda_device {

// --- memory.cc ---
int32_t alloc(int32_t device, size_t bytes, roda_memory* memory, roda_error* error);
int32_t alloc_on(int32_t device, size_t bytes, void* stream, roda_memory* memory, roda_error* error);
int32_t alloc_staging(int32_t device, size_t bytes, roda_memory* memory, roda_error* error);
void release(roda_memory* memory);
void release_on(roda_memory* memory, void* stream);
int32_t device_of(const void* address);

// --- compute.cc ---
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

// --- streams.cc ---
int32_t stream_create(int32_t device, void** stream, roda_error* error);
void stream_destroy(void* stream);
int32_t event_record(void* stream, void** event, roda_error* error);
int32_t event_record_on(int32_t device, void* stream, void** event, roda_error* error);
int32_t stream_check(int32_t device, void* stream, roda_error* error);
int32_t event_test(void* event, roda_error* error);
int32_t event_wait(void* stream, void* event, roda_error* error);
void event_release(void* event);

}  // namespace roda::cuda_device
