// A DOUBLE of HIP over the double of the CUDA driver, under HIP's names and with what differs: a current device of each
// thread in the place of contexts, and no kernels. It proves that the table is filled right as far as its author has
// read HIP's documentation, and nothing about an AMD GPU.
#include <cstddef>

#include "tests/doubles/cuda/double.h"
#include "tests/doubles/cuda/state.h"

namespace cuda = roda::cuda;
using cuda::Result;

// HIP's name, the driver's, their parameters, the arguments.
#define RODA_SAME(X)                                                                                                \
  X(hipInit, cuInit, (unsigned flags), (flags))                                                                     \
  X(hipDrvGetErrorName, cuGetErrorName, (Result result, const char** text), (result, text))                         \
  X(hipDrvGetErrorString, cuGetErrorString, (Result result, const char** text), (result, text))                     \
  X(hipGetDeviceCount, cuDeviceGetCount, (int* count), (count))                                                     \
  X(hipDeviceGet, cuDeviceGet, (cuda::Ordinal * device, int ordinal), (device, ordinal))                            \
  X(hipDeviceGetName, cuDeviceGetName, (char* name, int length, cuda::Ordinal device), (name, length, device))      \
  X(hipDeviceGetUuid, cuDeviceGetUuid, (cuda::Uuid * uuid, cuda::Ordinal device), (uuid, device))                   \
  X(hipDeviceGetStreamPriorityRange, cuCtxGetStreamPriorityRange, (int* least, int* greatest), (least, greatest))   \
  X(hipDrvPointerGetAttributes, cuPointerGetAttributes,                                                             \
    (unsigned count, int* attributes, void** values, cuda::Address pointer), (count, attributes, values, pointer))  \
  X(hipMemGetInfo, cuMemGetInfo_v2, (std::size_t * free, std::size_t * total), (free, total))                       \
  X(hipMalloc, cuMemAlloc_v2, (cuda::Address * address, std::size_t bytes), (address, bytes))                       \
  X(hipFree, cuMemFree_v2, (cuda::Address address), (address))                                                      \
  X(hipHostMalloc, cuMemHostAlloc, (void** address, std::size_t bytes, unsigned flags), (address, bytes, flags))    \
  X(hipHostFree, cuMemFreeHost, (void* address), (address))                                                         \
  X(hipMallocAsync, cuMemAllocAsync, (cuda::Address * address, std::size_t bytes, cuda::Stream stream),             \
    (address, bytes, stream))                                                                                       \
  X(hipFreeAsync, cuMemFreeAsync, (cuda::Address address, cuda::Stream stream), (address, stream))                  \
  X(hipStreamCreateWithPriority, cuStreamCreateWithPriority, (cuda::Stream * stream, unsigned flags, int priority), \
    (stream, flags, priority))                                                                                      \
  X(hipStreamDestroy, cuStreamDestroy_v2, (cuda::Stream stream), (stream))                                          \
  X(hipStreamQuery, cuStreamQuery, (cuda::Stream stream), (stream))                                                 \
  X(hipStreamSynchronize, cuStreamSynchronize, (cuda::Stream stream), (stream))                                     \
  X(hipStreamWaitEvent, cuStreamWaitEvent, (cuda::Stream stream, cuda::Event event, unsigned flags),                \
    (stream, event, flags))                                                                                         \
  X(hipStreamIsCapturing, cuStreamIsCapturing, (cuda::Stream stream, int* status), (stream, status))                \
  X(hipThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, (int* mode), (mode))                     \
  X(hipEventCreateWithFlags, cuEventCreate, (cuda::Event * event, unsigned flags), (event, flags))                  \
  X(hipEventDestroy, cuEventDestroy_v2, (cuda::Event event), (event))                                               \
  X(hipEventRecord, cuEventRecord, (cuda::Event event, cuda::Stream stream), (event, stream))                       \
  X(hipEventQuery, cuEventQuery, (cuda::Event event), (event))
#define X(hip, cu, parameters, arguments) \
  extern "C" Result cu parameters;        \
  RODA_DOUBLE Result hip parameters { return cu arguments; }
RODA_SAME(X)
#undef X

extern "C" {
Result cuMemcpyAsync(cuda::Address to, cuda::Address from, std::size_t bytes, cuda::Stream stream);
Result cuStreamGetCtx(cuda::Stream stream, cuda::Context* context);
Result cuDevicePrimaryCtxRetain(cuda::Context* context, cuda::Ordinal device);
Result cuCtxPushCurrent_v2(cuda::Context context);
Result cuCtxPopCurrent_v2(cuda::Context* context);
Result cuCtxGetDevice(cuda::Ordinal* device);
}

RODA_DOUBLE Result hipDriverGetVersion(int* version) {
  *version = 70051831;
  return cuda::kSuccess;
}
// Every thread has one, device 0 before it has chosen.
RODA_DOUBLE Result hipGetDevice(cuda::Ordinal* device) {
  *device = 0;
  static_cast<void>(cuCtxGetDevice(device));
  return cuda::kSuccess;
}
RODA_DOUBLE Result hipSetDevice(cuda::Ordinal device) {
  cuda::Context context = nullptr, before = nullptr;
  const Result result = cuDevicePrimaryCtxRetain(&context, device);
  if (result != cuda::kSuccess) return result;
  static_cast<void>(cuCtxPopCurrent_v2(&before));
  return cuCtxPushCurrent_v2(context);
}
RODA_DOUBLE Result hipStreamGetDevice(cuda::Stream stream, cuda::Ordinal* device) {
  cuda::Context context = nullptr;
  const Result result = cuStreamGetCtx(stream, &context);
  if (result == cuda::kSuccess) *device = context->device;
  return result;
}
RODA_DOUBLE Result hipMemcpyAsync(void* to, const void* from, std::size_t bytes, int kind, cuda::Stream stream) {
  constexpr int kDefault = 4;
  if (kind != kDefault) return cuda::kInvalidValue;
  return cuMemcpyAsync(reinterpret_cast<cuda::Address>(to), reinterpret_cast<cuda::Address>(from), bytes, stream);
}

RODA_DOUBLE Result hipModuleLoadData(cuda::Module*, const void*) { return cuda::kNoBinaryForGpu; }
RODA_DOUBLE Result hipModuleGetFunction(cuda::Function*, cuda::Module, const char*) { return cuda::kNotFound; }
RODA_DOUBLE Result hipModuleLaunchKernel(cuda::Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                         unsigned, cuda::Stream, void**, void**) {
  return cuda::kInvalidValue;
}
