#include "plugins/devices/cuda/cuda_device.h"

#include <cstdio>

#include "plugins/devices/cuda/device_state.h"

namespace roda::cuda_device {
namespace {

char description[256] = "GPUs by the CUDA driver, opened at run time";

// Does not start CUDA: processes that are forked later can still use it.
int32_t probe(const roda_host* host, roda_error* error) {
  const Status status = State::get().start(host);
  if (!status.ok()) return status.to(error);
  const cuda::Driver& driver = *State::get().driver();
  std::snprintf(description, sizeof description, "GPUs, %s %s by the driver; %s", driver.vendor(),
                cuda::version_text(driver.version).c_str(), kernels_built().c_str());
  return RODA_OK;
}

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

// `body` on that GPU, whose context is current.
template <typename Body>
int32_t on_gpu(int32_t device, roda_error* error, Body&& body) {
  Gpu* gpu = nullptr;
  if (const Status found = State::get().gpu(device, &gpu); !found.ok()) return found.to(error);
  const cuda::Driver& driver = *State::get().driver();
  const cuda::ContextScope scope(driver, gpu->context());
  return body(*gpu, driver).to(error);
}

// `take` gets the driver, the bytes, and where to put the address.
template <typename Take>
int32_t take_memory(int32_t device, size_t bytes, roda_memory* memory, roda_error* error, Take&& take) {
  return on_gpu(device, error, [&](Gpu& gpu, const cuda::Driver& driver) -> Status {
    const std::uint64_t limit = State::get().limit();
    const std::size_t size = bytes > 0 ? bytes : 1;
    if (!gpu.hold(size, limit)) {
      return Status::no_memory("CUDA: " + mebibytes(bytes) + " more on device " + std::to_string(gpu.device()) +
                               " would exceed RODA_TEST_CUDA_MEMORY_LIMIT=" + std::to_string(limit));
    }
    cuda::Address address = 0;
    const Status status = take(driver, size, &address);
    if (!status.ok()) {
      gpu.let_go(size);
      return no_memory(gpu, driver, bytes, status);
    }
    auto* pointer = reinterpret_cast<void*>(address);
    *memory = roda_memory{sizeof(roda_memory), RODA_MEMORY_CUDA, gpu.device(), 0, pointer, bytes, pointer};
    return {};
  });
}

int32_t alloc(int32_t device, size_t bytes, roda_memory* memory, roda_error* error) {
  const auto take = [](const cuda::Driver& driver, std::size_t size, cuda::Address* address) {
    return driver.check(driver.MemAlloc(address, size), "cuMemAlloc_v2");
  };
  return take_memory(device, bytes, memory, error, take);
}

int32_t alloc_on(int32_t device, size_t bytes, void* stream, roda_memory* memory, roda_error* error) {
  const auto take = [stream](const cuda::Driver& driver, std::size_t size, cuda::Address* address) {
    const bool has_pools = driver.MemAllocAsync != nullptr && driver.MemFreeAsync != nullptr;
    const cuda::Result result =
        has_pools ? driver.MemAllocAsync(address, size, static_cast<cuda::Stream>(stream)) : cuda::kNotSupported;
    if (result == cuda::kNotSupported) return Status::unsupported("CUDA: no memory in a stream's order");
    return driver.check(result, "cuMemAllocAsync");
  };
  return take_memory(device, bytes, memory, error, take);
}

int32_t alloc_staging(int32_t device, size_t bytes, roda_memory* memory, roda_error* error) {
  return on_gpu(device, error, [&](Gpu&, const cuda::Driver& driver) {
    void* address = nullptr;
    const cuda::Result result = driver.MemHostAlloc(&address, bytes > 0 ? bytes : 1, cuda::kHostAllocPortable);
    const Status status = driver.check(result, "pinning " + mebibytes(bytes) + " of host memory");
    if (status.ok()) *memory = roda_memory{sizeof(roda_memory), RODA_MEMORY_HOST, device, 0, address, bytes, address};
    return status;
  });
}

// `give` gets the driver and the address.
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

// On a stream that records a graph an event would become a part of the graph, and so would all that waits for it. The
// GPU's context is current.
Status record(Gpu& gpu, const cuda::Driver& driver, void* stream, void** event) {
  const auto on = static_cast<cuda::Stream>(stream);
  RODA_RETURN_IF_ERROR(cuda::check_capture(driver, on, "recording an event"));
  Gpu::Marker* taken = nullptr;
  RODA_RETURN_IF_ERROR(gpu.take(&taken));
  const Status status = driver.check(driver.EventRecord(taken->event, on), "cuEventRecord");
  if (!status.ok()) gpu.give_back(taken);
  if (status.ok()) *event = taken;
  return status;
}

// Streams have the highest priority: other ranks wait for the data that they carry.
int32_t stream_create(int32_t device, void** stream, roda_error* error) {
  return on_gpu(device, error, [&](Gpu&, const cuda::Driver& driver) -> Status {
    int least = 0, greatest = 0;
    RODA_RETURN_IF_ERROR(driver.check(driver.ContextGetPriorities(&least, &greatest), "cuCtxGetStreamPriorityRange"));
    cuda::Stream made = nullptr;
    RODA_RETURN_IF_ERROR(
        driver.check(driver.StreamCreate(&made, cuda::kStreamNonBlocking, greatest), "cuStreamCreateWithPriority"));
    *stream = made;
    return {};
  });
}

void stream_destroy(void* stream) { State::get().driver()->StreamDestroy(static_cast<cuda::Stream>(stream)); }

int32_t event_record(void* stream, void** event, roda_error* error) {
  const cuda::Driver* driver = State::get().driver();
  if (driver == nullptr) return Status::precondition("CUDA: used before its probe").to(error);
  cuda::Context context = nullptr;
  Gpu* gpu = nullptr;
  Status status =
      driver->check(driver->StreamGetContext(static_cast<cuda::Stream>(stream), &context), "cuStreamGetCtx");
  if (status.ok()) status = State::get().gpu_of(context, &gpu);
  if (!status.ok()) return status.to(error);
  const cuda::ContextScope scope(*driver, context);
  return record(*gpu, *driver, stream, event).to(error);
}

int32_t event_record_on(int32_t device, void* stream, void** event, roda_error* error) {
  return on_gpu(device, error,
                [&](Gpu& gpu, const cuda::Driver& driver) { return record(gpu, driver, stream, event); });
}

int32_t stream_check(int32_t device, void* stream, roda_error* error) {
  return on_gpu(device, error, [&](Gpu&, const cuda::Driver& driver) {
    return cuda::check_stream(driver, static_cast<cuda::Stream>(stream), "waiting for a tensor's value");
  });
}

int32_t event_test(void* event, roda_error* error) {
  const auto* marker = static_cast<const Gpu::Marker*>(event);
  const cuda::Driver& driver = *State::get().driver();
  const cuda::ContextScope scope(driver, marker->gpu->context());
  const cuda::Result result = driver.EventQuery(marker->event);
  if (result == cuda::kNotReady) return RODA_IN_PROGRESS;
  return driver.check(result, "work on device " + std::to_string(marker->gpu->device())).to(error);
}

int32_t event_wait(void* stream, void* event, roda_error* error) {
  const auto* marker = static_cast<const Gpu::Marker*>(event);
  const cuda::Driver& driver = *State::get().driver();
  const cuda::ContextScope scope(driver, marker->gpu->context());
  const auto waits = static_cast<cuda::Stream>(stream);
  Status status = cuda::check_capture(driver, waits, "waiting for a collective");
  if (status.ok()) status = driver.check(driver.StreamWaitEvent(waits, marker->event, 0), "cuStreamWaitEvent");
  return status.to(error);
}

void event_release(void* event) {
  auto* marker = static_cast<Gpu::Marker*>(event);
  marker->gpu->give_back(marker);
}

roda_device make_table() {
  roda_device table{};
  table.struct_size = sizeof table;
  table.abi_version = RODA_ABI_VERSION;
  table.name = "cuda";
  table.description = description;
  table.memory_kind = RODA_MEMORY_CUDA;
  table.probe = probe;
  table.alloc = alloc;
  table.free = release;
  table.stream_create = stream_create;
  table.stream_destroy = stream_destroy;
  table.event_record = event_record;
  table.event_test = event_test;
  table.event_wait = event_wait;
  table.event_release = event_release;
  table.alloc_staging = alloc_staging;
  table.device_of = [](const void* address) -> int32_t { return State::get().device_of(address); };
  table.event_record_on = event_record_on;
  table.stream_check = stream_check;
  table.alloc_on = alloc_on;
  table.free_on = release_on;
  add_compute(&table);
  return table;
}

}  // namespace
}  // namespace roda::cuda_device

const roda_device* roda_cuda_device(void) {
  static const roda_device table = roda::cuda_device::make_table();
  return &table;
}
