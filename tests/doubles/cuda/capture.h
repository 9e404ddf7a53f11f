// Recordings of graphs on the CUDA double: which streams take part, what they took in, and what spoils them.
#pragma once

#include <memory>
#include <thread>

#include "plugins/base/cuda/types.h"

namespace roda::cuda_double {

// Results and modes that only recordings need.
inline constexpr cuda::Result kCaptureInvalidated = 901;
inline constexpr cuda::Result kCaptureUnmatched = 903;
inline constexpr cuda::Result kCaptureUnjoined = 904;
inline constexpr cuda::Result kCaptureIsolation = 905;
inline constexpr cuda::Result kCapturedEvent = 907;
inline constexpr int kCaptureThreadLocal = 1;

// One, from cuStreamBeginCapture to its end. Other streams join it by waiting for an event of it.
struct Capture {
  cuda::Stream origin = nullptr;
  int mode = cuda::kCaptureGlobal;
  std::thread::id thread;
  bool is_spoilt = false;  // guarded by the list of all
  int joined = 0;          // other streams, guarded
};
using CaptureRef = std::shared_ptr<Capture>;

// The mode in which this thread respects recordings.
int& capture_mode();

// All from any thread.
cuda::Result begin_capture(cuda::Stream stream, int mode);
cuda::Result end_capture(cuda::Stream stream);
// That the stream takes part in now; null: none.
CaptureRef capture_of(cuda::Stream stream);
void join_capture(cuda::Stream stream, const CaptureRef& capture);
void spoil(const CaptureRef& capture);
// What a call that recordings may forbid returns, by the mode of this thread.
cuda::Result forbidden_here();
// A recording took something in, or was spoilt; and how often that was since the process began.
void note_capture();
unsigned captured();

}  // namespace roda::cuda_double
