// Streams, events and kernels of the CUDA double.
#include <cstring>
#include <utility>

#include "tests/doubles/cuda/double.h"
#include "tests/doubles/cuda/state.h"

namespace cuda = roda::cuda;
using cuda::Result;
using namespace roda::cuda_double;

RODA_DOUBLE Result cuStreamCreateWithPriority(cuda::Stream* stream, unsigned, int) {
  if (const Result result = device_state(); result != cuda::kSuccess) return result;
  *stream = new cuda::StreamObject{stack().back(), WorkQueue(stack().back()->device)};
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuStreamGetCtx(cuda::Stream stream, cuda::Context* context) {
  if (is_default(stream) && stack().empty()) return cuda::kInvalidContext;
  *context = is_default(stream) ? stack().back() : stream->context;
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuStreamDestroy_v2(cuda::Stream stream) {
  delete stream;
  return cuda::kSuccess;
}

// What a question about a stream or an event finds: a recording has no answer.
static Result recorded_state(cuda::Stream stream) {
  const CaptureRef capture = capture_of(stream);
  if (capture == nullptr) return cuda::kSuccess;
  spoil(capture);
  return cuda::kCaptureUnsupported;
}

RODA_DOUBLE Result cuStreamQuery(cuda::Stream stream) {
  if (const Result result = unsafe_state(); result != cuda::kSuccess) return result;
  const cuda::Stream asked = resolve(stream);
  if (const Result result = recorded_state(asked); result != cuda::kSuccess) return result;
  const Clock reached = Order::get().reached(asked->queue.actor());
  if (!asked->queue.is_idle()) return cuda::kNotReady;
  Order::get().observe(reached);
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuStreamSynchronize(cuda::Stream stream) {
  if (const Result result = unsafe_state(); result != cuda::kSuccess) return result;
  const cuda::Stream asked = resolve(stream);
  if (const Result result = recorded_state(asked); result != cuda::kSuccess) return result;
  const Clock reached = Order::get().reached(asked->queue.actor());
  asked->queue.wait_idle();
  Order::get().observe(reached);
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuStreamIsCapturing(cuda::Stream stream, int* status) {
  if (is_default(stream) && stack().empty()) return cuda::kInvalidContext;
  const CaptureRef capture = capture_of(resolve(stream));
  *status = capture == nullptr ? cuda::kCaptureNone : 1;
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuStreamBeginCapture_v2(cuda::Stream stream, int mode) { return begin_capture(stream, mode); }
RODA_DOUBLE Result cuStreamEndCapture(cuda::Stream stream, void** graph) {
  *graph = nullptr;
  return end_capture(stream);
}
RODA_DOUBLE Result cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode());
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuLaunchHostFunc(cuda::Stream stream, cuda::HostFunction function, void* argument) {
  return put(stream, "a host function", [=] { function(argument); });
}

RODA_DOUBLE Result cuEventCreate(cuda::Event* event, unsigned) {
  if (const Result result = device_state(); result != cuda::kSuccess) return result;
  *event = new cuda::EventObject{stack().back(), {}, nullptr, {}, {}, nullptr};
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuEventDestroy_v2(cuda::Event event) {
  delete event;
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuEventRecord(cuda::Event event, cuda::Stream stream) {
  if (const Result result = device_state(); result != cuda::kSuccess) return result;
  const cuda::Stream on = resolve(stream);
  if (event->context != on->context) return kInvalidHandle;
  const std::lock_guard lock(event->mutex);
  event->capture = capture_of(on);
  if (event->capture != nullptr) {
    note_capture();
    return cuda::kSuccess;
  }
  ++puts().events;
  event->mark = std::make_shared<Mark>();
  on->queue.add_event([mark = event->mark] { mark->set(); }, &event->clock, &event->early);
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuEventQuery(cuda::Event event) {
  if (const Result result = unsafe_state(); result != cuda::kSuccess) return result;
  const std::lock_guard lock(event->mutex);
  if (event->capture != nullptr) {
    spoil(event->capture);
    return kCapturedEvent;
  }
  if (event->mark == nullptr) return cuda::kSuccess;
  const bool is_needed = side_of_thread() == kEngine && !Order::get().is_observed(event->clock);
  if (is_left_out(RODA_CUDA_DOUBLE_NO_HOST_WAIT, is_needed)) return cuda::kSuccess;
  if (!event->mark->is_set()) return cuda::kNotReady;
  Order::get().observe(event->clock);
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuStreamWaitEvent(cuda::Stream stream, cuda::Event event, unsigned) {
  if (const Result result = device_state(); result != cuda::kSuccess) return result;
  const cuda::Stream waits = resolve(stream);
  const CaptureRef capture = capture_of(waits);
  const std::lock_guard lock(event->mutex);
  if (event->capture != nullptr) {
    if (capture != nullptr && capture != event->capture) return kCaptureIsolation;
    if (capture == nullptr) join_capture(waits, event->capture);
    note_capture();
    return cuda::kSuccess;
  }
  ++puts().waits;
  if (event->mark == nullptr) return cuda::kSuccess;
  if (capture != nullptr) {
    spoil(capture);
    return kCaptureIsolation;
  }
  const bool is_needed = !Order::get().reached(waits->queue.actor()).covers(event->clock);
  const Clock* after = &event->clock;
  const bool can_be_early = is_needed && !event->early.covers(event->clock);
  if (is_left_out(RODA_CUDA_DOUBLE_EARLY_EVENT, can_be_early)) after = &event->early;
  if (is_left_out(RODA_CUDA_DOUBLE_NO_WAIT, is_needed)) after = nullptr;
  waits->queue.add_wait([mark = event->mark] { mark->wait(); }, after);
  return cuda::kSuccess;
}

RODA_DOUBLE Result cuModuleLoadData(cuda::Module* module, const void*) {
  const long error = setting("RODA_CUDA_DOUBLE_MODULE_ERROR", 0);
  if (error != 0) return static_cast<Result>(error);
  if (const Result result = device_state(); result != cuda::kSuccess) return result;
  const std::lock_guard lock(state().mutex);
  state().modules.push_back(std::make_unique<cuda::ModuleObject>(cuda::ModuleObject{stack().back()}));
  *module = state().modules.back().get();
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuModuleGetFunction(cuda::Function* function, cuda::Module module, const char* name) {
  const Kernel* kernel = find_kernel(name);
  if (kernel == nullptr) return cuda::kNotFound;
  const std::lock_guard lock(state().mutex);
  state().functions.push_back(std::make_unique<cuda::FunctionObject>(cuda::FunctionObject{module->context, kernel}));
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
  if (function->context != resolve(stream)->context) return kInvalidHandle;
  ++puts().kernels;
  const Kernel* kernel = function->kernel;
  const auto* bytes = static_cast<const char*>(parameters[0]);
  auto argument = std::make_shared<std::vector<char>>(bytes, bytes + kernel->argument_bytes);
  const auto run = [=] {
    if (kernel->touch(argument->data())) kernel->run(blocks, threads, argument->data());
  };
  return put(stream, kernel->name, run, true);
}
