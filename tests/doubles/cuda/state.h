// What the CUDA double keeps: its devices' contexts, and what handles point to.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "plugins/base/cuda/types.h"
#include "tests/doubles/cuda/kernels.h"
#include "tests/doubles/cuda/memory.h"
#include "tests/doubles/cuda/stream.h"

#define RODA_DOUBLE extern "C" __attribute__((visibility("default")))

namespace roda::cuda {

struct ContextObject {
  int device = 0;
  std::mutex mutex;
  std::unique_ptr<cuda_double::WorkQueue> default_stream;
};
struct StreamObject {
  Context context;
  cuda_double::WorkQueue queue;
};
struct EventObject {
  std::shared_ptr<cuda_double::Mark> mark;
};
struct FunctionObject {
  const cuda_double::Kernel* kernel;
};

}  // namespace roda::cuda

namespace roda::cuda_double {

inline constexpr int kMaxDevices = 32;

struct State {
  std::mutex mutex;
  bool is_started = false;
  int devices = 0;
  cuda::Context contexts[kMaxDevices] = {};
  std::vector<std::unique_ptr<cuda::FunctionObject>> functions;
};
State& state();

// This thread's contexts, the current one last.
std::vector<cuda::Context>& stack();
// What a call that touches the device returns before it does anything.
cuda::Result device_state();
// The same for what a graph that another thread records forbids, by this thread's mode; and for what is put on a
// stream, which a recording takes in.
cuda::Result unsafe_state();
cuda::Result put_state();
int& capture_mode();
// The default stream's is made when first used.
WorkQueue* queue_of(cuda::Stream stream);
bool is_default(cuda::Stream stream);

}  // namespace roda::cuda_double
