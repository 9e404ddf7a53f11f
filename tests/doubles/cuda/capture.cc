#include "tests/doubles/cuda/capture.h"

#include <atomic>
#include <map>
#include <mutex>

namespace roda::cuda_double {
namespace {

std::mutex guard;
std::map<cuda::Stream, CaptureRef> recording;  // guarded; every stream that takes part
std::atomic<unsigned> taken_in{0};

// Whether a call that a recording may forbid is forbidden by this one.
bool forbids(const Capture& capture) {
  if (capture.mode == cuda::kCaptureRelaxed || capture_mode() == cuda::kCaptureRelaxed) return false;
  if (capture.thread == std::this_thread::get_id()) return true;
  return capture.mode == cuda::kCaptureGlobal && capture_mode() == cuda::kCaptureGlobal;
}

}  // namespace

int& capture_mode() {
  thread_local int mode = cuda::kCaptureGlobal;
  return mode;
}

cuda::Result begin_capture(cuda::Stream stream, int mode) {
  const std::lock_guard lock(guard);
  if (recording.count(stream) != 0) return cuda::kCaptureUnsupported;
  auto made = std::make_shared<Capture>();
  made->origin = stream;
  made->mode = mode;
  made->thread = std::this_thread::get_id();
  recording[stream] = std::move(made);
  return cuda::kSuccess;
}

cuda::Result end_capture(cuda::Stream stream) {
  const std::lock_guard lock(guard);
  const auto found = recording.find(stream);
  if (found == recording.end() || found->second->origin != stream) return kCaptureUnmatched;
  const CaptureRef capture = found->second;
  std::erase_if(recording, [&](const auto& entry) { return entry.second == capture; });
  if (capture->is_spoilt) return kCaptureInvalidated;
  return capture->joined > 0 ? kCaptureUnjoined : cuda::kSuccess;
}

CaptureRef capture_of(cuda::Stream stream) {
  const std::lock_guard lock(guard);
  const auto found = recording.find(stream);
  return found == recording.end() ? nullptr : found->second;
}

// That a stream may join the origin again is not played: nothing of ours may join at all.
void join_capture(cuda::Stream stream, const CaptureRef& capture) {
  const std::lock_guard lock(guard);
  recording[stream] = capture;
  ++capture->joined;
}

void spoil(const CaptureRef& capture) {
  const std::lock_guard lock(guard);
  capture->is_spoilt = true;
  note_capture();
}

cuda::Result forbidden_here() {
  const std::lock_guard lock(guard);
  cuda::Result result = cuda::kSuccess;
  for (const auto& [stream, capture] : recording) {
    if (!forbids(*capture)) continue;
    capture->is_spoilt = true;
    note_capture();
    result = cuda::kCaptureUnsupported;
  }
  return result;
}

void note_capture() { ++taken_in; }
unsigned captured() { return taken_in.load(); }

}  // namespace roda::cuda_double
