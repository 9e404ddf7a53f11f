// What the CUDA double keeps: its devices' contexts, and what handles point to.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "plugins/base/cuda/types.h"
#include "tests/doubles/cuda/capture.h"
#include "tests/doubles/cuda/kernels.h"
#include "tests/doubles/cuda/memory.h"
#include "tests/doubles/cuda/stream.h"

#define RODA_DOUBLE extern "C" __attribute__((visibility("default")))

namespace roda::cuda {

struct ContextObject {
  int device = 0;
  std::mutex mutex;
  std::unique_ptr<StreamObject> default_stream;
};
struct StreamObject {
  Context context;
  cuda_double::WorkQueue queue;
};
struct EventObject {
  Context context;
  std::mutex mutex;  // of the rest: its last recording
  std::shared_ptr<cuda_double::Mark> mark;
  cuda_double::Clock clock, early;  // `early`: without the last piece of work before it
  cuda_double::CaptureRef capture;
};
struct ModuleObject {
  Context context;
};
struct FunctionObject {
  Context context;
  const cuda_double::Kernel* kernel;
};

}  // namespace roda::cuda

namespace roda::cuda_double {

inline constexpr int kMaxDevices = 32;
inline constexpr cuda::Result kInvalidHandle = 400;

struct State {
  std::mutex mutex;
  bool is_started = false;
  int devices = 0;
  cuda::Context contexts[kMaxDevices] = {};
  std::vector<std::unique_ptr<cuda::ModuleObject>> modules;
  std::vector<std::unique_ptr<cuda::FunctionObject>> functions;
};
State& state();

// This thread's contexts, the current one last.
std::vector<cuda::Context>& stack();
// What a call that touches the device returns before it does anything.
cuda::Result device_state();
// The same for what a recording may forbid.
cuda::Result unsafe_state();
// What the handle means: default streams are the current context's, and made when first used.
cuda::Stream resolve(cuda::Stream stream);
bool is_default(cuda::Stream stream);
// Work is put on the stream, unless that records a graph, which then takes it in.
cuda::Result put(cuda::Stream stream, const char* what, std::function<void()> work, bool is_kernel = false);

}  // namespace roda::cuda_double
