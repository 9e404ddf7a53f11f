// The CUDA driver API, opened at run time behind a table of its functions: one binary serves machines with and without
// a GPU, and a test can stand in for the driver. Nothing here needs a header or a library of CUDA's to build.
#pragma once

#include <string>

#include "plugins/base/cuda/types.h"
#include "plugins/base/status.h"

namespace roda::cuda {

// Member, exported name, parameters. All return Result.
#define RODA_CUDA_FUNCTIONS(X)                                                                                       \
  X(Init, cuInit, (unsigned flags))                                                                                  \
  X(DriverGetVersion, cuDriverGetVersion, (int* version))                                                            \
  X(GetErrorName, cuGetErrorName, (Result result, const char** text))                                                \
  X(GetErrorString, cuGetErrorString, (Result result, const char** text))                                            \
  X(DeviceGetCount, cuDeviceGetCount, (int* count))                                                                  \
  X(DeviceGet, cuDeviceGet, (Ordinal * device, int ordinal))                                                         \
  X(DeviceGetName, cuDeviceGetName, (char* name, int length, Ordinal device))                                        \
  X(DeviceGetUuid, cuDeviceGetUuid, (Uuid * uuid, Ordinal device))                                                   \
  X(DeviceGetAttribute, cuDeviceGetAttribute, (int* value, int attribute, Ordinal device))                           \
  X(PrimaryContextRetain, cuDevicePrimaryCtxRetain, (Context * context, Ordinal device))                             \
  X(ContextPush, cuCtxPushCurrent_v2, (Context context))                                                             \
  X(ContextPop, cuCtxPopCurrent_v2, (Context * context))                                                             \
  X(ContextGetCurrent, cuCtxGetCurrent, (Context * context))                                                         \
  X(ContextGetDevice, cuCtxGetDevice, (Ordinal * device))                                                            \
  X(ContextGetPriorities, cuCtxGetStreamPriorityRange, (int* least, int* greatest))                                  \
  X(PointerGetAttributes, cuPointerGetAttributes, (unsigned count, int* attributes, void** values, Address pointer)) \
  X(MemGetInfo, cuMemGetInfo_v2, (std::size_t * free, std::size_t * total))                                          \
  X(MemAlloc, cuMemAlloc_v2, (Address * address, std::size_t bytes))                                                 \
  X(MemFree, cuMemFree_v2, (Address address))                                                                        \
  X(MemHostAlloc, cuMemHostAlloc, (void** address, std::size_t bytes, unsigned flags))                               \
  X(MemFreeHost, cuMemFreeHost, (void* address))                                                                     \
  X(MemcpyAsync, cuMemcpyAsync, (Address to, Address from, std::size_t bytes, Stream stream))                        \
  X(StreamCreate, cuStreamCreateWithPriority, (Stream * stream, unsigned flags, int priority))                       \
  X(StreamDestroy, cuStreamDestroy_v2, (Stream stream))                                                              \
  X(StreamGetContext, cuStreamGetCtx, (Stream stream, Context * context))                                            \
  X(StreamQuery, cuStreamQuery, (Stream stream))                                                                     \
  X(StreamSynchronize, cuStreamSynchronize, (Stream stream))                                                         \
  X(StreamWaitEvent, cuStreamWaitEvent, (Stream stream, Event event, unsigned flags))                                \
  X(StreamIsCapturing, cuStreamIsCapturing, (Stream stream, int* status))                                            \
  X(ExchangeCaptureMode, cuThreadExchangeStreamCaptureMode, (int* mode))                                             \
  X(EventCreate, cuEventCreate, (Event * event, unsigned flags))                                                     \
  X(EventDestroy, cuEventDestroy_v2, (Event event))                                                                  \
  X(EventRecord, cuEventRecord, (Event event, Stream stream))                                                        \
  X(EventQuery, cuEventQuery, (Event event))                                                                         \
  X(ModuleLoadData, cuModuleLoadData, (Module * module, const void* image))                                          \
  X(ModuleGetFunction, cuModuleGetFunction, (Function * function, Module module, const char* name))                  \
  X(LaunchKernel, cuLaunchKernel,                                                                                    \
    (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,       \
     unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters, void** extra))

// Null in drivers that lack them: from CUDA 11.2 on.
#define RODA_CUDA_POOL_FUNCTIONS(X)                                                        \
  X(MemAllocAsync, cuMemAllocAsync, (Address * address, std::size_t bytes, Stream stream)) \
  X(MemFreeAsync, cuMemFreeAsync, (Address address, Stream stream))

// Which GPUs there are. Null where the library is HIP.
#define RODA_CUDA_PLACE_FUNCTIONS(X)                                                  \
  X(DeviceGetPCIBusId, cuDeviceGetPCIBusId, (char* text, int length, Ordinal device)) \
  X(DeviceTotalMem, cuDeviceTotalMem_v2, (std::size_t * bytes, Ordinal device))       \
  X(DeviceCanAccessPeer, cuDeviceCanAccessPeer, (int* can, Ordinal device, Ordinal peer))

// Immutable once opened; any thread. Never closed.
struct Driver {
#define X(member, symbol, parameters) Result(*member) parameters = nullptr;
  RODA_CUDA_FUNCTIONS(X)
  RODA_CUDA_POOL_FUNCTIONS(X)
  RODA_CUDA_PLACE_FUNCTIONS(X)
#undef X
  std::string path;
  bool is_hip = false;  // see hip.h
  int version = 0;      // the newest CUDA, or HIP, that the driver serves: 12040 is 12.4

  const char* vendor() const { return is_hip ? "HIP" : "CUDA"; }

  // `file` is a name for the dynamic linker, null or empty for the driver's own. Opened once in this shared object,
  // however often it is asked for. Starts nothing of CUDA's. *driver is null when there is none, with the reason in the
  // status.
  static Status open(const char* file, const Driver** driver);

  // "cuMemAlloc_v2 of 5 bytes: CUDA_ERROR_OUT_OF_MEMORY (out of memory)", and what to do where that is known.
  std::string explain(Result result, const std::string& what) const;
  // The same as a status with a fitting code; OK for kSuccess.
  Status check(Result result, const std::string& what) const;
};

// "12.4"
std::string version_text(int version);

}  // namespace roda::cuda
