#include "tests/doubles/cuda/double.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plugins/base/cuda/types.h"
#include "tests/doubles/cuda/kernels.h"
#include "tests/doubles/cuda/memory.h"
#include "tests/doubles/cuda/stream.h"

namespace cuda = roda::cuda;
using cuda::Address;
using cuda::Result;
using roda::cuda_double::Kernel;
using roda::cuda_double::Mark;
using roda::cuda_double::WorkQueue;

namespace roda::cuda {

struct ContextObject {
  int device = 0;
  std::mutex mutex;
  std::unique_ptr<WorkQueue> default_stream;
};
struct StreamObject {
  Context context;
  WorkQueue queue;
};
struct EventObject {
  std::shared_ptr<Mark> mark;
};
struct FunctionObject {
  const Kernel* kernel;
};

}  // namespace roda::cuda

namespace {

constexpr int kMaxDevices = 32;

struct State {
  std::mutex mutex;
  bool is_started = false;
  int devices = 0;
  cuda::Context contexts[kMaxDevices] = {};
  std::vector<std::unique_ptr<cuda::FunctionObject>> functions;
};

// Never destroyed: streams' threads may outlive main.
State& state() {
  static auto* the_one = new State;
  return *the_one;
}

thread_local std::vector<cuda::Context> stack;

Result device_state() { return stack.empty() ? cuda::kInvalidContext : roda::cuda_double::condition().sticky.load(); }

// CU_STREAM_LEGACY and CU_STREAM_PER_THREAD are no addresses.
bool is_default(cuda::Stream stream) { return reinterpret_cast<std::uintptr_t>(stream) <= 2; }

// The default stream is made when first used.
WorkQueue* queue_of(cuda::Stream stream) {
  if (!is_default(stream)) return &stream->queue;
  cuda::ContextObject& context = *stack.back();
  const std::lock_guard lock(context.mutex);
  if (context.default_stream == nullptr) context.default_stream = std::make_unique<WorkQueue>();
  return context.default_stream.get();
}

struct Text {
  Result result;
  const char* name;
  const char* words;
};
constexpr Text kTexts[] = {
    {cuda::kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {cuda::kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {cuda::kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {cuda::kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {cuda::kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {cuda::kInvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {cuda::kNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available"},
    {cuda::kUnsupportedPtx, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the PTX was compiled with an unsupported toolchain"},
    {cuda::kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {cuda::kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {cuda::kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {cuda::kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
};

const Text* text_of(Result result) {
  for (const Text& text : kTexts) {
    if (text.result == result) return &text;
  }
  return nullptr;
}

}  // namespace

#define RODA_DOUBLE extern "C" __attribute__((visibility("default")))

RODA_DOUBLE void roda_cuda_double_set_error(int result) { roda::cuda_double::condition().sticky.store(result); }
RODA_DOUBLE void roda_cuda_double_set_capturing(int captures) {
  roda::cuda_double::condition().captures.store(captures != 0);
}
RODA_DOUBLE unsigned roda_cuda_double_contexts() {
  const std::lock_guard lock(state().mutex);
  unsigned bits = 0;
  for (int i = 0; i < kMaxDevices; ++i) bits |= state().contexts[i] != nullptr ? 1u << i : 0u;
  return bits;
}

RODA_DOUBLE Result cuInit(unsigned) {
  const long error = roda::cuda_double::setting("RODA_CUDA_DOUBLE_INIT_ERROR", 0);
  if (error != 0) return static_cast<Result>(error);
  const std::lock_guard lock(state().mutex);
  state().is_started = true;
  state().devices =
      static_cast<int>(std::min<long>(roda::cuda_double::setting("RODA_CUDA_DOUBLE_DEVICES", 8), kMaxDevices));
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuDriverGetVersion(int* version) {
  *version = static_cast<int>(roda::cuda_double::setting("RODA_CUDA_DOUBLE_VERSION", 13000));
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuGetErrorName(Result result, const char** text) {
  const Text* found = text_of(result);
  *text = found != nullptr ? found->name : nullptr;
  return found != nullptr ? cuda::kSuccess : cuda::kInvalidValue;
}
RODA_DOUBLE Result cuGetErrorString(Result result, const char** text) {
  const Text* found = text_of(result);
  *text = found != nullptr ? found->words : nullptr;
  return found != nullptr ? cuda::kSuccess : cuda::kInvalidValue;
}

RODA_DOUBLE Result cuDeviceGetCount(int* count) {
  if (!state().is_started) return cuda::kNotInitialized;
  *count = state().devices;
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuDeviceGet(cuda::Ordinal* device, int ordinal) {
  if (!state().is_started) return cuda::kNotInitialized;
  if (ordinal < 0 || ordinal >= state().devices) return cuda::kInvalidDevice;
  *device = ordinal;
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuDeviceGetName(char* name, int length, cuda::Ordinal) {
  std::snprintf(name, static_cast<std::size_t>(length), "CUDA double");
  return cuda::kSuccess;
}
// A device is the same GPU in every process.
RODA_DOUBLE Result cuDeviceGetUuid(cuda::Uuid* uuid, cuda::Ordinal device) {
  std::memset(uuid->bytes, 0xd0, sizeof uuid->bytes);
  uuid->bytes[0] = static_cast<unsigned char>(device);
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuDeviceGetAttribute(int* value, int attribute, cuda::Ordinal) {
  *value = attribute == cuda::kAttributeProcessors ? 4 : attribute == cuda::kAttributeMajor ? 9 : 0;
  return cuda::kSuccess;
}

RODA_DOUBLE Result cuDevicePrimaryCtxRetain(cuda::Context* context, cuda::Ordinal device) {
  const std::lock_guard lock(state().mutex);
  if (!state().is_started) return cuda::kNotInitialized;
  if (device < 0 || device >= state().devices) return cuda::kInvalidDevice;
  cuda::Context& known = state().contexts[device];
  if (known == nullptr) known = new cuda::ContextObject;
  known->device = device;
  *context = known;
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuCtxPushCurrent_v2(cuda::Context context) {
  if (context == nullptr) return cuda::kInvalidContext;
  stack.push_back(context);
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuCtxPopCurrent_v2(cuda::Context* context) {
  if (stack.empty()) return cuda::kInvalidContext;
  *context = stack.back();
  stack.pop_back();
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuCtxGetCurrent(cuda::Context* context) {
  *context = stack.empty() ? nullptr : stack.back();
  return state().is_started ? cuda::kSuccess : cuda::kNotInitialized;
}
RODA_DOUBLE Result cuCtxGetDevice(cuda::Ordinal* device) {
  if (stack.empty()) return cuda::kInvalidContext;
  *device = stack.back()->device;
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return device_state();
}

RODA_DOUBLE Result cuPointerGetAttribute(void* value, int attribute, Address pointer) {
  const int owner = roda::cuda_double::owner_of(reinterpret_cast<const void*>(pointer));
  if (owner == -2) return cuda::kInvalidValue;
  if (attribute == cuda::kPointerMemoryType) {
    *static_cast<unsigned*>(value) = owner >= 0 ? cuda::kMemoryDevice : cuda::kMemoryHost;
  } else {
    *static_cast<int*>(value) = std::max(owner, 0);
  }
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  if (const Result result = device_state(); result != cuda::kSuccess) return result;
  std::size_t used = 0;
  roda::cuda_double::usage(stack.back()->device, &used, total);
  *free = *total - used;
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuMemAlloc_v2(Address* address, std::size_t bytes) {
  if (const Result result = device_state(); result != cuda::kSuccess) return result;
  void* memory = nullptr;
  const Result result = roda::cuda_double::allocate(stack.back()->device, bytes, &memory);
  *address = reinterpret_cast<Address>(memory);
  return result;
}
// As the real one, it waits for the device.
RODA_DOUBLE Result cuMemFree_v2(Address address) {
  return roda::cuda_double::release(reinterpret_cast<void*>(address), true);
}
RODA_DOUBLE Result cuMemHostAlloc(void** address, std::size_t bytes, unsigned) {
  return roda::cuda_double::allocate(-1, bytes, address);
}
RODA_DOUBLE Result cuMemFreeHost(void* address) { return roda::cuda_double::release(address, false); }
RODA_DOUBLE Result cuMemcpyAsync(Address to, Address from, std::size_t bytes, cuda::Stream stream) {
  if (const Result result = device_state(); result != cuda::kSuccess) return result;
  queue_of(stream)->add([=] { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes); });
  return cuda::kSuccess;
}

RODA_DOUBLE Result cuStreamCreateWithPriority(cuda::Stream* stream, unsigned, int) {
  if (const Result result = device_state(); result != cuda::kSuccess) return result;
  *stream = new cuda::StreamObject{stack.back(), {}};
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuStreamGetCtx(cuda::Stream stream, cuda::Context* context) {
  if (is_default(stream) && stack.empty()) return cuda::kInvalidContext;
  *context = is_default(stream) ? stack.back() : stream->context;
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuStreamDestroy_v2(cuda::Stream stream) {
  delete stream;
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuStreamQuery(cuda::Stream stream) {
  if (const Result result = device_state(); result != cuda::kSuccess) return result;
  return queue_of(stream)->is_idle() ? cuda::kSuccess : cuda::kNotReady;
}
RODA_DOUBLE Result cuStreamSynchronize(cuda::Stream stream) {
  if (const Result result = device_state(); result != cuda::kSuccess) return result;
  queue_of(stream)->wait_idle();
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuStreamIsCapturing(cuda::Stream, int* status) {
  *status = roda::cuda_double::condition().captures.load() ? 1 : cuda::kCaptureNone;
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuLaunchHostFunc(cuda::Stream stream, cuda::HostFunction function, void* argument) {
  if (const Result result = device_state(); result != cuda::kSuccess) return result;
  queue_of(stream)->add([=] { function(argument); });
  return cuda::kSuccess;
}

RODA_DOUBLE Result cuEventCreate(cuda::Event* event, unsigned) {
  *event = new cuda::EventObject;
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuEventDestroy_v2(cuda::Event event) {
  delete event;
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuEventRecord(cuda::Event event, cuda::Stream stream) {
  if (const Result result = device_state(); result != cuda::kSuccess) return result;
  event->mark = std::make_shared<Mark>();
  queue_of(stream)->add([mark = event->mark] { mark->set(); });
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuEventQuery(cuda::Event event) {
  if (const Result sticky = roda::cuda_double::condition().sticky.load(); sticky != cuda::kSuccess) return sticky;
  return event->mark == nullptr || event->mark->is_set() ? cuda::kSuccess : cuda::kNotReady;
}
RODA_DOUBLE Result cuStreamWaitEvent(cuda::Stream stream, cuda::Event event, unsigned) {
  if (const Result result = device_state(); result != cuda::kSuccess) return result;
  if (event->mark != nullptr) queue_of(stream)->add([mark = event->mark] { mark->wait(); });
  return cuda::kSuccess;
}

RODA_DOUBLE Result cuModuleLoadData(cuda::Module* module, const void* image) {
  const long error = roda::cuda_double::setting("RODA_CUDA_DOUBLE_MODULE_ERROR", 0);
  if (error != 0) return static_cast<Result>(error);
  *module = reinterpret_cast<cuda::Module>(const_cast<void*>(image));
  return device_state();
}
RODA_DOUBLE Result cuModuleGetFunction(cuda::Function* function, cuda::Module, const char* name) {
  const Kernel* kernel = roda::cuda_double::find_kernel(name);
  if (kernel == nullptr) return cuda::kNotFound;
  const std::lock_guard lock(state().mutex);
  state().functions.push_back(std::make_unique<cuda::FunctionObject>(cuda::FunctionObject{kernel}));
  *function = state().functions.back().get();
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuLaunchKernel(cuda::Function function, unsigned blocks, unsigned grid_y, unsigned grid_z,
                                  unsigned threads, unsigned block_y, unsigned block_z, unsigned, cuda::Stream stream,
                                  void** parameters, void**) {
  if (const Result result = device_state(); result != cuda::kSuccess) return result;
  if (blocks == 0 || threads == 0 || threads > 1024 || grid_y * grid_z * block_y * block_z != 1) {
    return cuda::kInvalidValue;
  }
  const Kernel* kernel = function->kernel;
  const auto* bytes = static_cast<const char*>(parameters[0]);
  auto argument = std::make_shared<std::vector<char>>(bytes, bytes + kernel->argument_bytes);
  queue_of(stream)->add([=] { kernel->run(blocks, threads, argument->data()); });
  return cuda::kSuccess;
}
