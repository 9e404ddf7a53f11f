// Devices, contexts and memory of the CUDA double.
#include "tests/doubles/cuda/double.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/doubles/cuda/state.h"

namespace cuda = roda::cuda;
using cuda::Address;
using cuda::Result;
using namespace roda::cuda_double;

RODA_DOUBLE void roda_cuda_double_set_error(int result) { sticky_error().store(result); }
RODA_DOUBLE unsigned roda_cuda_double_captured() { return captured(); }
RODA_DOUBLE void roda_cuda_double_count(roda_cuda_double_puts* counts) {
  *counts = {puts().kernels.load(), puts().events.load(), puts().waits.load(), puts().questions.load()};
}
RODA_DOUBLE unsigned long long roda_cuda_double_staged_bytes() { return staged_bytes(); }
RODA_DOUBLE unsigned roda_cuda_double_contexts() {
  const std::lock_guard lock(state().mutex);
  unsigned bits = 0;
  for (int i = 0; i < kMaxDevices; ++i) bits |= state().contexts[i] != nullptr ? 1u << i : 0u;
  return bits;
}

RODA_DOUBLE Result cuInit(unsigned) {
  const long error = setting("RODA_CUDA_DOUBLE_INIT_ERROR", 0);
  if (error != 0) return static_cast<Result>(error);
  const std::lock_guard lock(state().mutex);
  state().is_started = true;
  state().devices = static_cast<int>(std::min<long>(setting("RODA_CUDA_DOUBLE_DEVICES", 8), kMaxDevices));
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuDriverGetVersion(int* version) {
  *version = static_cast<int>(setting("RODA_CUDA_DOUBLE_VERSION", 13000));
  return cuda::kSuccess;
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
RODA_DOUBLE Result cuDeviceGetPCIBusId(char* text, int length, cuda::Ordinal device) {
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0", 0x1b + 0x28 * device);
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuDeviceTotalMem_v2(std::size_t* bytes, cuda::Ordinal device) {
  std::size_t used = 0;
  usage(device, &used, bytes);
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuDeviceCanAccessPeer(int* can, cuda::Ordinal device, cuda::Ordinal peer) {
  *can = device != peer ? 1 : 0;
  return cuda::kSuccess;
}
// A device is the same GPU in every process.
RODA_DOUBLE Result cuDeviceGetUuid(cuda::Uuid* uuid, cuda::Ordinal device) {
  std::memset(uuid->bytes, 0xd0, sizeof uuid->bytes);
  uuid->bytes[0] = static_cast<unsigned char>(device);
  return cuda::kSuccess;
}

// RODA_CUDA_DOUBLE_WRITES_ORDERING: 0 as on a GPU before Hopper, else as on one.
RODA_DOUBLE Result cuDeviceGetAttribute(int* value, int attribute, cuda::Ordinal) {
  if (attribute == cuda::kCapabilityMajor || attribute == cuda::kCapabilityMinor) {
    *value = attribute == cuda::kCapabilityMajor ? 8 : 6;
    return cuda::kSuccess;
  }
  if (attribute != cuda::kRdmaWritesOrdering) return cuda::kInvalidValue;
  *value = static_cast<int>(setting("RODA_CUDA_DOUBLE_WRITES_ORDERING", cuda::kOrderedForOwner));
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
  stack().push_back(context);
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuCtxPopCurrent_v2(cuda::Context* context) {
  if (stack().empty()) return cuda::kInvalidContext;
  *context = stack().back();
  stack().pop_back();
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuCtxGetCurrent(cuda::Context* context) {
  *context = stack().empty() ? nullptr : stack().back();
  return state().is_started ? cuda::kSuccess : cuda::kNotInitialized;
}
RODA_DOUBLE Result cuCtxGetDevice(cuda::Ordinal* device) {
  if (stack().empty()) return cuda::kInvalidContext;
  *device = stack().back()->device;
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return device_state();
}

// As the real one: of memory that it does not know everything is 0.
RODA_DOUBLE Result cuPointerGetAttributes(unsigned count, int* attributes, void** values, Address pointer) {
  ++puts().questions;
  const int owner = owner_of(reinterpret_cast<const void*>(pointer));
  for (unsigned i = 0; i < count; ++i) {
    const unsigned type = owner == -2 ? 0 : owner >= 0 ? cuda::kMemoryDevice : cuda::kMemoryHost;
    const bool asks_type = attributes[i] == cuda::kPointerMemoryType;
    *static_cast<unsigned*>(values[i]) = asks_type ? type : static_cast<unsigned>(std::max(owner, 0));
  }
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  if (const Result result = device_state(); result != cuda::kSuccess) return result;
  std::size_t used = 0;
  usage(stack().back()->device, &used, total);
  *free = *total - used;
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuMemAlloc_v2(Address* address, std::size_t bytes) {
  if (const Result result = unsafe_state(); result != cuda::kSuccess) return result;
  void* memory = nullptr;
  const Result result = allocate(stack().back()->device, bytes, &memory);
  *address = reinterpret_cast<Address>(memory);
  return result;
}
// The real one waits for the device, mostly; here that is a mistake, since nobody may rely on it.
RODA_DOUBLE Result cuMemFree_v2(Address address) {
  const Result result = unsafe_state();
  return result != cuda::kSuccess ? result : release(reinterpret_cast<void*>(address), true, "cuMemFree");
}
RODA_DOUBLE Result cuMemAllocAsync(Address* address, std::size_t bytes, cuda::Stream stream) {
  void* memory = nullptr;
  if (const Result result = device_state(); result != cuda::kSuccess) return result;
  const Result result = allocate(resolve(stream)->context->device, bytes, &memory);
  *address = reinterpret_cast<Address>(memory);
  if (result != cuda::kSuccess) return result;
  return put(stream, "cuMemAllocAsync", [=] { touch(memory, bytes, true, ""); });
}
RODA_DOUBLE Result cuMemFreeAsync(Address address, cuda::Stream stream) {
  return put(stream, "cuMemFreeAsync", [=] { release(reinterpret_cast<void*>(address), true, ""); });
}
RODA_DOUBLE Result cuMemHostAlloc(void** address, std::size_t bytes, unsigned) {
  const Result result = unsafe_state();
  return result != cuda::kSuccess ? result : allocate(-1, bytes, address);
}
RODA_DOUBLE Result cuMemFreeHost(void* address) { return release(address, false, "cuMemFreeHost"); }
RODA_DOUBLE Result cuMemcpyAsync(Address to, Address from, std::size_t bytes, cuda::Stream stream) {
  auto* target = reinterpret_cast<void*>(to);
  const auto* source = reinterpret_cast<const void*>(from);
  const bool is_staged = note_copy(target, source, bytes);
  return put(stream, "a copy", [=] {
    if (is_staged) Order::get().copies();
    const bool is_there = touch(source, bytes, false, "") && touch(target, bytes, true, "");
    if (is_there) std::memcpy(target, source, bytes);
  });
}
