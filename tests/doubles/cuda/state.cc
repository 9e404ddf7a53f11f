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

cuda::Result device_state() { return stack().empty() ? cuda::kInvalidContext : sticky_error().load(); }

cuda::Result unsafe_state() {
  const cuda::Result forbidden = forbidden_here();
  return forbidden != cuda::kSuccess ? forbidden : device_state();
}

// CU_STREAM_LEGACY and CU_STREAM_PER_THREAD are no addresses.
bool is_default(cuda::Stream stream) { return reinterpret_cast<std::uintptr_t>(stream) <= 2; }

cuda::Stream resolve(cuda::Stream stream) {
  if (!is_default(stream)) return stream;
  cuda::ContextObject& context = *stack().back();
  const std::lock_guard lock(context.mutex);
  if (context.default_stream == nullptr) {
    context.default_stream.reset(new cuda::StreamObject{&context, WorkQueue(context.device)});
  }
  return context.default_stream.get();
}

cuda::Result put(cuda::Stream stream, const char* what, std::function<void()> work, bool is_kernel) {
  if (const cuda::Result result = device_state(); result != cuda::kSuccess) return result;
  const cuda::Stream on = resolve(stream);
  if (capture_of(on) != nullptr) {
    note_capture();
  } else {
    on->queue.add(what, std::move(work), is_kernel);
  }
  return cuda::kSuccess;
}

}  // namespace roda::cuda_double
