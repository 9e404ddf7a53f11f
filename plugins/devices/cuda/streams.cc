#include <map>
#include <vector>

#include "plugins/base/mutex.h"
#include "plugins/devices/cuda/device_state.h"
#include "plugins/devices/cuda/entries.h"

namespace roda::cuda_device {
namespace {

// What the ABI's event points to.
struct Marker {
  Gpu* gpu;
  cuda::Event event;
};

// Events are made once and used again.
class EventPool {
 public:
  static EventPool& get() {
    static auto* pool = new EventPool;
    return *pool;
  }
  // The GPU's context is current.
  Status take(const cuda::Driver& driver, Gpu& gpu, Marker** marker) {
    {
      const MutexLock lock(mutex_);
      std::vector<Marker*>& free = free_[gpu.device()];
      if (!free.empty()) {
        *marker = free.back();
        free.pop_back();
        return {};
      }
    }
    cuda::Event event = nullptr;
    RODA_RETURN_IF_ERROR(driver.check(driver.EventCreate(&event, cuda::kEventDisableTiming), "cuEventCreate"));
    *marker = new Marker{&gpu, event};
    return {};
  }
  void give_back(Marker* marker) {
    const MutexLock lock(mutex_);
    free_[marker->gpu->device()].push_back(marker);
  }

 private:
  Mutex mutex_;
  std::map<int, std::vector<Marker*>> free_ RODA_GUARDED_BY(mutex_);
};

// On a stream that records a graph an event would become a part of the graph, and so would all that waits for it.
Status record(Gpu& gpu, cuda::Context context, cuda::Stream stream, void** event) {
  const cuda::Driver& driver = *State::get().driver();
  const cuda::ContextScope scope(driver, context);
  RODA_RETURN_IF_ERROR(cuda::check_capture(driver, stream, "recording an event"));
  Marker* taken = nullptr;
  RODA_RETURN_IF_ERROR(EventPool::get().take(driver, gpu, &taken));
  const Status status = driver.check(driver.EventRecord(taken->event, stream), "cuEventRecord");
  if (!status.ok()) EventPool::get().give_back(taken);
  if (status.ok()) *event = taken;
  return status;
}

Status record_on_current(void* stream, void** event) {
  const cuda::Driver* driver = State::get().driver();
  if (driver == nullptr) return Status::precondition("CUDA: used before its probe");
  const auto on = static_cast<cuda::Stream>(stream);
  cuda::Context context = nullptr;
  Gpu* gpu = nullptr;
  RODA_RETURN_IF_ERROR(driver->check(driver->StreamGetContext(on, &context), "cuStreamGetCtx"));
  RODA_RETURN_IF_ERROR(State::get().gpu_of(context, &gpu));
  return record(*gpu, context, on, event);
}

}  // namespace

// Of the highest priority: what is communicated is waited for by other ranks.
int32_t stream_create(int32_t device, void** stream, roda_error* error) {
  Gpu* gpu = nullptr;
  const Status found = State::get().gpu(device, &gpu);
  if (!found.ok()) return found.to(error);
  const cuda::Driver& driver = *State::get().driver();
  const cuda::ContextScope scope(driver, gpu->context());
  int least = 0, greatest = 0;
  Status status = driver.check(driver.ContextGetPriorities(&least, &greatest), "cuCtxGetStreamPriorityRange");
  cuda::Stream made = nullptr;
  if (status.ok()) {
    status = driver.check(driver.StreamCreate(&made, cuda::kStreamNonBlocking, greatest), "cuStreamCreateWithPriority");
  }
  if (status.ok()) *stream = made;
  return status.to(error);
}

void stream_destroy(void* stream) { State::get().driver()->StreamDestroy(static_cast<cuda::Stream>(stream)); }

int32_t event_record(void* stream, void** event, roda_error* error) {
  return record_on_current(stream, event).to(error);
}

int32_t event_record_on(int32_t device, void* stream, void** event, roda_error* error) {
  Gpu* gpu = nullptr;
  Status status = State::get().gpu(device, &gpu);
  if (status.ok()) status = record(*gpu, gpu->context(), static_cast<cuda::Stream>(stream), event);
  return status.to(error);
}

int32_t stream_check(int32_t device, void* stream, roda_error* error) {
  Gpu* gpu = nullptr;
  Status status = State::get().gpu(device, &gpu);
  if (status.ok()) {
    const cuda::Driver& driver = *State::get().driver();
    const cuda::ContextScope scope(driver, gpu->context());
    status = cuda::check_stream(driver, static_cast<cuda::Stream>(stream), "waiting for a tensor's value");
  }
  return status.to(error);
}

int32_t event_test(void* event, roda_error* error) {
  const auto* marker = static_cast<const Marker*>(event);
  const cuda::Driver& driver = *State::get().driver();
  const cuda::ContextScope scope(driver, marker->gpu->context());
  const cuda::Result result = driver.EventQuery(marker->event);
  if (result == cuda::kNotReady) return RODA_IN_PROGRESS;
  return driver.check(result, "work on device " + std::to_string(marker->gpu->device())).to(error);
}

int32_t event_wait(void* stream, void* event, roda_error* error) {
  const auto* marker = static_cast<const Marker*>(event);
  const cuda::Driver& driver = *State::get().driver();
  const cuda::ContextScope scope(driver, marker->gpu->context());
  const auto waits = static_cast<cuda::Stream>(stream);
  Status status = cuda::check_capture(driver, waits, "waiting for a collective");
  if (status.ok()) status = driver.check(driver.StreamWaitEvent(waits, marker->event, 0), "cuStreamWaitEvent");
  return status.to(error);
}

void event_release(void* event) { EventPool::get().give_back(static_cast<Marker*>(event)); }

}  // namespace roda::cuda_device
