// Streams and events of the device entries; as <roda/abi/device.h> says.
#pragma once

#include <roda/abi/device.h>

namespace roda::cuda_device {

int32_t stream_create(int32_t device, void** stream, roda_error* error);
void stream_destroy(void* stream);
int32_t event_record(void* stream, void** event, roda_error* error);
int32_t event_test(void* event, roda_error* error);
int32_t event_wait(void* stream, void* event, roda_error* error);
void event_release(void* event);

}  // namespace roda::cuda_device
