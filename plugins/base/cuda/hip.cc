#include "plugins/base/cuda/hip.h"

#include <vector>

#include "plugins/base/symbols.h"

namespace roda::cuda {
namespace {

// Functions that differ from CUDA's only in their names: errors, flags and attributes that are used here have CUDA's
// numbers.
#define RODA_HIP_NAMES(X)                                    \
  X(Init, hipInit)                                           \
  X(GetErrorName, hipDrvGetErrorName)                        \
  X(GetErrorString, hipDrvGetErrorString)                    \
  X(DeviceGetCount, hipGetDeviceCount)                       \
  X(DeviceGet, hipDeviceGet)                                 \
  X(DeviceGetName, hipDeviceGetName)                         \
  X(DeviceGetUuid, hipDeviceGetUuid)                         \
  X(ContextGetDevice, hipGetDevice)                          \
  X(ContextGetPriorities, hipDeviceGetStreamPriorityRange)   \
  X(PointerGetAttributes, hipDrvPointerGetAttributes)        \
  X(MemGetInfo, hipMemGetInfo)                               \
  X(MemAlloc, hipMalloc)                                     \
  X(MemFree, hipFree)                                        \
  X(MemHostAlloc, hipHostMalloc)                             \
  X(MemFreeHost, hipHostFree)                                \
  X(StreamCreate, hipStreamCreateWithPriority)               \
  X(StreamDestroy, hipStreamDestroy)                         \
  X(StreamQuery, hipStreamQuery)                             \
  X(StreamSynchronize, hipStreamSynchronize)                 \
  X(StreamWaitEvent, hipStreamWaitEvent)                     \
  X(StreamIsCapturing, hipStreamIsCapturing)                 \
  X(ExchangeCaptureMode, hipThreadExchangeStreamCaptureMode) \
  X(EventCreate, hipEventCreateWithFlags)                    \
  X(EventDestroy, hipEventDestroy)                           \
  X(EventRecord, hipEventRecord)                             \
  X(EventQuery, hipEventQuery)                               \
  X(ModuleLoadData, hipModuleLoadData)                       \
  X(ModuleGetFunction, hipModuleGetFunction)                 \
  X(LaunchKernel, hipModuleLaunchKernel)                     \
  X(MemAllocAsync, hipMallocAsync)                           \
  X(MemFreeAsync, hipFreeAsync)

// The library that the functions below call. Set once, before the table is used.
struct Runtime {
  Result (*DriverGetVersion)(int* version);
  Result (*GetDevice)(Ordinal* device);
  Result (*SetDevice)(Ordinal device);
  Result (*StreamGetDevice)(Stream stream, Ordinal* device);
  Result (*MemcpyAsync)(void* to, const void* from, std::size_t bytes, int kind, Stream stream);
};
Runtime hip;

constexpr int kMemcpyDefault = 4;

// 70051831 is HIP 7.0.51831.
Result get_version(int* version) {
  int coded = 0;
  const Result result = hip.DriverGetVersion(&coded);
  *version = coded / 10000000 * 1000 + coded / 100000 % 100 * 10;
  return result;
}

// A context is a device's number here: HIP's own contexts are deprecated.
Context context_of(Ordinal device) { return reinterpret_cast<Context>(static_cast<std::intptr_t>(device) + 1); }
Ordinal device_of(Context context) { return static_cast<Ordinal>(reinterpret_cast<std::intptr_t>(context) - 1); }

std::vector<Ordinal>& devices_before() {
  thread_local std::vector<Ordinal> devices;
  return devices;
}

Result retain_context(Context* context, Ordinal device) {
  *context = context_of(device);
  return kSuccess;
}
Result get_context(Context* context) {
  Ordinal device = -1;
  const Result result = hip.GetDevice(&device);
  *context = result == kSuccess ? context_of(device) : nullptr;
  return result;
}
Result push_context(Context context) {
  Ordinal before = -1;
  Result result = hip.GetDevice(&before);
  if (result == kSuccess) result = hip.SetDevice(device_of(context));
  if (result == kSuccess) devices_before().push_back(before);
  return result;
}
Result pop_context(Context* context) {
  *context = nullptr;
  if (devices_before().empty()) return kInvalidContext;
  const Ordinal before = devices_before().back();
  devices_before().pop_back();
  return hip.SetDevice(before);
}
Result get_stream_context(Stream stream, Context* context) {
  Ordinal device = -1;
  const Result result = hip.StreamGetDevice(stream, &device);
  if (result == kSuccess) *context = context_of(device);
  return result;
}

// The one that is asked for, RDMA's order of writes, HIP does not tell.
Result get_attribute(int*, int, Ordinal) { return kInvalidValue; }

Result copy(Address to, Address from, std::size_t bytes, Stream stream) {
  return hip.MemcpyAsync(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes, kMemcpyDefault,
                         stream);
}

}  // namespace

const char* fill_from_hip(void* library, Driver* driver) {
#define X(member, symbol) \
  if (!look_up(library, #symbol, &driver->member)) return #symbol;
  RODA_HIP_NAMES(X)
#undef X
  if (!look_up(library, "hipDriverGetVersion", &hip.DriverGetVersion)) return "hipDriverGetVersion";
  if (!look_up(library, "hipGetDevice", &hip.GetDevice)) return "hipGetDevice";
  if (!look_up(library, "hipSetDevice", &hip.SetDevice)) return "hipSetDevice";
  if (!look_up(library, "hipStreamGetDevice", &hip.StreamGetDevice)) return "hipStreamGetDevice";
  if (!look_up(library, "hipMemcpyAsync", &hip.MemcpyAsync)) return "hipMemcpyAsync";
  driver->DriverGetVersion = get_version;
  driver->PrimaryContextRetain = retain_context;
  driver->ContextPush = push_context;
  driver->ContextPop = pop_context;
  driver->ContextGetCurrent = get_context;
  driver->StreamGetContext = get_stream_context;
  driver->DeviceGetAttribute = get_attribute;
  driver->MemcpyAsync = copy;
  return nullptr;
}

}  // namespace roda::cuda
