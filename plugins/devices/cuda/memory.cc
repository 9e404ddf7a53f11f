#include "plugins/devices/cuda/device_state.h"
#include "plugins/devices/cuda/entries.h"

namespace roda::cuda_device {
namespace {

std::string mebibytes(std::uint64_t bytes) { return std::to_string((bytes + (1 << 19)) >> 20) + " MiB"; }

// What was asked for, what the device has, and what to do.
Status no_memory(Gpu& gpu, const cuda::Driver& driver, std::uint64_t bytes, const Status& status) {
  if (status.code() != RODA_ERR_NO_MEMORY) return status;
  std::size_t free = 0, total = 0;
  driver.MemGetInfo(&free, &total);
  return Status::no_memory("CUDA: no room for " + mebibytes(bytes) + " on device " + std::to_string(gpu.device()) +
                           ": " + mebibytes(free) + " of " + mebibytes(total) + " are free, this plugin holds " +
                           mebibytes(gpu.held()) +
                           "; lower HOROVOD_FUSION_THRESHOLD, use a smaller batch, or let the framework give back what "
                           "it caches (torch.cuda.empty_cache())");
}

// `take` gets where to put the address.
template <typename Take>
Status take_memory(int32_t device, std::size_t bytes, roda_memory* memory, Take&& take) {
  State& state = State::get();
  Gpu* found = nullptr;
  RODA_RETURN_IF_ERROR(state.gpu(device, &found));
  Gpu& gpu = *found;
  const cuda::Driver& driver = *state.driver();
  const std::size_t size = bytes > 0 ? bytes : 1;
  if (!gpu.hold(size, state.limit())) {
    return Status::no_memory("CUDA: " + mebibytes(bytes) + " more on device " + std::to_string(gpu.device()) +
                             " would exceed RODA_TEST_CUDA_MEMORY_LIMIT=" + std::to_string(state.limit()));
  }
  const cuda::ContextScope scope(driver, gpu.context());
  cuda::Address address = 0;
  const Status status = take(driver, size, &address);
  if (!status.ok()) {
    gpu.let_go(size);
    return no_memory(gpu, driver, bytes, status);
  }
  auto* pointer = reinterpret_cast<void*>(address);
  *memory = roda_memory{sizeof(roda_memory), RODA_MEMORY_CUDA, gpu.device(), 0, pointer, bytes, pointer};
  return {};
}

// `give` gives it back.
template <typename Give>
void give_memory(roda_memory* memory, Give&& give) {
  Gpu* gpu = nullptr;
  if (memory->owner != nullptr && State::get().gpu(memory->device, &gpu).ok()) {
    const cuda::Driver& driver = *State::get().driver();
    const cuda::ContextScope scope(driver, gpu->context());
    give(driver, reinterpret_cast<cuda::Address>(memory->owner));
    if (memory->kind != RODA_MEMORY_HOST) gpu->let_go(memory->length > 0 ? memory->length : 1);
  }
  memory->address = memory->owner = nullptr;
  memory->length = 0;
}

}  // namespace

int32_t alloc(int32_t device, size_t bytes, roda_memory* memory, roda_error* error) {
  return take_memory(device, bytes, memory,
                     [](const cuda::Driver& driver, std::size_t size, cuda::Address* address) {
                       return driver.check(driver.MemAlloc(address, size), "cuMemAlloc_v2");
                     })
      .to(error);
}

int32_t alloc_on(int32_t device, size_t bytes, void* stream, roda_memory* memory, roda_error* error) {
  return take_memory(device, bytes, memory,
                     [&](const cuda::Driver& driver, std::size_t size, cuda::Address* address) {
                       const bool has_pools = driver.MemAllocAsync != nullptr && driver.MemFreeAsync != nullptr;
                       const cuda::Result result =
                           has_pools ? driver.MemAllocAsync(address, size, static_cast<cuda::Stream>(stream))
                                     : cuda::kNotSupported;
                       if (result == cuda::kNotSupported)
                         return Status::unsupported("CUDA: no memory in a stream's order");
                       return driver.check(result, "cuMemAllocAsync");
                     })
      .to(error);
}

int32_t alloc_staging(int32_t device, size_t bytes, roda_memory* memory, roda_error* error) {
  Gpu* gpu = nullptr;
  const Status found = State::get().gpu(device, &gpu);
  if (!found.ok()) return found.to(error);
  const cuda::Driver& driver = *State::get().driver();
  const cuda::ContextScope scope(driver, gpu->context());
  void* address = nullptr;
  const cuda::Result result = driver.MemHostAlloc(&address, bytes > 0 ? bytes : 1, cuda::kHostAllocPortable);
  const Status status = driver.check(result, "pinning " + mebibytes(bytes) + " of host memory");
  if (status.ok()) *memory = roda_memory{sizeof(roda_memory), RODA_MEMORY_HOST, device, 0, address, bytes, address};
  return status.to(error);
}

void release(roda_memory* memory) {
  give_memory(memory, [memory](const cuda::Driver& driver, cuda::Address address) {
    memory->kind == RODA_MEMORY_HOST ? driver.MemFreeHost(memory->owner) : driver.MemFree(address);
  });
}

void release_on(roda_memory* memory, void* stream) {
  give_memory(memory, [stream](const cuda::Driver& driver, cuda::Address address) {
    if (driver.MemFreeAsync(address, static_cast<cuda::Stream>(stream)) != cuda::kSuccess) driver.MemFree(address);
  });
}

int32_t device_of(const void* address) {
  const cuda::Driver* driver = State::get().driver();
  return driver == nullptr ? -1 : cuda::Devices::get(*driver).device_of(address);
}

}  // namespace roda::cuda_device
