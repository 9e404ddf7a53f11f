#include "tests/doubles/cuda/state.h"

#include <cstdint>

namespace roda::cuda_double {

// Never destroyed: streams' threads may outlive main.
State& state() {
  static auto* the_one = new State;
  return *the_one;
}

std::vector<cuda::Context>& stack() {
  thread_local std::vector<cuda::Context> contexts;
  return contexts;
}

cuda::Result device_state() { return stack().empty() ? cuda::kInvalidContext : condition().sticky.load(); }

int& capture_mode() {
  thread_local int mode = cuda::kCaptureGlobal;
  return mode;
}

cuda::Result unsafe_state() {
  if (condition().captures.load() == 2 && capture_mode() == cuda::kCaptureGlobal) {
    ++condition().captured;
    return cuda::kCaptureUnsupported;
  }
  return device_state();
}

cuda::Result put_state() {
  if (condition().captures.load() == 1) ++condition().captured;
  return device_state();
}

// CU_STREAM_LEGACY and CU_STREAM_PER_THREAD are no addresses.
bool is_default(cuda::Stream stream) { return reinterpret_cast<std::uintptr_t>(stream) <= 2; }

WorkQueue* queue_of(cuda::Stream stream) {
  if (!is_default(stream)) return &stream->queue;
  cuda::ContextObject& context = *stack().back();
  const std::lock_guard lock(context.mutex);
  if (context.default_stream == nullptr) context.default_stream = std::make_unique<WorkQueue>();
  return context.default_stream.get();
}

}  // namespace roda::cuda_double
