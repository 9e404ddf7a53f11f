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

Status alloc_on(Gpu& gpu, std::size_t bytes, roda_memory* memory) {
  State& state = State::get();
  const cuda::Driver& driver = *state.driver();
  const std::size_t size = bytes > 0 ? bytes : 1;
  if (!gpu.hold(size, state.limit())) {
    return Status::no_memory("CUDA: " + mebibytes(bytes) + " more on device " + std::to_string(gpu.device()) +
                             " would exceed RODA_TEST_CUDA_MEMORY_LIMIT=" + std::to_string(state.limit()));
  }
  const cuda::ContextScope scope(driver, gpu.context());
  cuda::Address address = 0;
  const Status status = driver.check(driver.MemAlloc(&address, size), "cuMemAlloc_v2");
  if (!status.ok()) {
    gpu.let_go(size);
    return no_memory(gpu, driver, bytes, status);
  }
  auto* pointer = reinterpret_cast<void*>(address);
  *memory = roda_memory{sizeof(roda_memory), RODA_MEMORY_CUDA, gpu.device(), 0, pointer, bytes, pointer};
  return {};
}

}  // namespace

int32_t alloc(int32_t device, size_t bytes, roda_memory* memory, roda_error* error) {
  Gpu* gpu = nullptr;
  Status status = State::get().gpu(device, &gpu);
  if (status.ok()) status = alloc_on(*gpu, bytes, memory);
  return status.to(error);
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
  Gpu* gpu = nullptr;
  if (memory->owner != nullptr && State::get().gpu(memory->device, &gpu).ok()) {
    const cuda::Driver& driver = *State::get().driver();
    const cuda::ContextScope scope(driver, gpu->context());
    if (memory->kind == RODA_MEMORY_HOST) {
      driver.MemFreeHost(memory->owner);
    } else {
      driver.MemFree(reinterpret_cast<cuda::Address>(memory->owner));
      gpu->let_go(memory->length > 0 ? memory->length : 1);
    }
  }
  memory->address = memory->owner = nullptr;
  memory->length = 0;
}

int32_t device_of(const void* address) {
  const cuda::Driver* driver = State::get().driver();
  return driver == nullptr ? -1 : cuda::Devices::get(*driver).device_of(address);
}

}  // namespace roda::cuda_device
