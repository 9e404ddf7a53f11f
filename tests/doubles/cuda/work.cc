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
  *stream = new cuda::StreamObject{stack().back(), {}};
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
RODA_DOUBLE Result cuStreamQuery(cuda::Stream stream) {
  if (const Result result = unsafe_state(); result != cuda::kSuccess) return result;
  return queue_of(stream)->is_idle() ? cuda::kSuccess : cuda::kNotReady;
}
RODA_DOUBLE Result cuStreamSynchronize(cuda::Stream stream) {
  if (const Result result = unsafe_state(); result != cuda::kSuccess) return result;
  queue_of(stream)->wait_idle();
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuStreamIsCapturing(cuda::Stream, int* status) {
  *status = condition().captures.load() == 1 ? 1 : cuda::kCaptureNone;
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode());
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuLaunchHostFunc(cuda::Stream stream, cuda::HostFunction function, void* argument) {
  if (const Result result = put_state(); result != cuda::kSuccess) return result;
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
  if (const Result result = put_state(); result != cuda::kSuccess) return result;
  ++condition().events;
  event->mark = std::make_shared<Mark>();
  queue_of(stream)->add([mark = event->mark] { mark->set(); });
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuEventQuery(cuda::Event event) {
  if (const Result result = unsafe_state(); result != cuda::kSuccess) return result;
  return event->mark == nullptr || event->mark->is_set() ? cuda::kSuccess : cuda::kNotReady;
}
RODA_DOUBLE Result cuStreamWaitEvent(cuda::Stream stream, cuda::Event event, unsigned) {
  if (const Result result = put_state(); result != cuda::kSuccess) return result;
  ++condition().waits;
  if (event->mark != nullptr) queue_of(stream)->add([mark = event->mark] { mark->wait(); });
  return cuda::kSuccess;
}

RODA_DOUBLE Result cuModuleLoadData(cuda::Module* module, const void* image) {
  const long error = setting("RODA_CUDA_DOUBLE_MODULE_ERROR", 0);
  if (error != 0) return static_cast<Result>(error);
  *module = reinterpret_cast<cuda::Module>(const_cast<void*>(image));
  return device_state();
}
RODA_DOUBLE Result cuModuleGetFunction(cuda::Function* function, cuda::Module, const char* name) {
  const Kernel* kernel = find_kernel(name);
  if (kernel == nullptr) return cuda::kNotFound;
  const std::lock_guard lock(state().mutex);
  state().functions.push_back(std::make_unique<cuda::FunctionObject>(cuda::FunctionObject{kernel}));
  *function = state().functions.back().get();
  return cuda::kSuccess;
}
RODA_DOUBLE Result cuLaunchKernel(cuda::Function function, unsigned blocks, unsigned grid_y, unsigned grid_z,
                                  unsigned threads, unsigned block_y, unsigned block_z, unsigned, cuda::Stream stream,
                                  void** parameters, void**) {
  if (const Result result = put_state(); result != cuda::kSuccess) return result;
  if (blocks == 0 || threads == 0 || threads > 1024 || grid_y * grid_z * block_y * block_z != 1) {
    return cuda::kInvalidValue;
  }
  ++condition().kernels;
  const Kernel* kernel = function->kernel;
  const auto* bytes = static_cast<const char*>(parameters[0]);
  auto argument = std::make_shared<std::vector<char>>(bytes, bytes + kernel->argument_bytes);
  queue_of(stream)->add([=] { kernel->run(blocks, threads, argument->data()); });
  return cuda::kSuccess;
}
