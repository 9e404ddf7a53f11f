#include "plugins/base/cuda/devices.h"

#include <map>

#include "plugins/base/mutex.h"

namespace roda::cuda {
namespace {

Mutex guard;
// Never destroyed, like the devices: helper threads may outlive main.
std::map<int, Context>& contexts RODA_GUARDED_BY(guard) = *new std::map<int, Context>;

}  // namespace

Status Devices::start() {
  const MutexLock lock(guard);
  if (count_ > 0) return {};
  RODA_RETURN_IF_ERROR(driver_.check(driver_.Init(0), "cuInit"));
  int count = 0;
  RODA_RETURN_IF_ERROR(driver_.check(driver_.DeviceGetCount(&count), "cuDeviceGetCount"));
  if (count == 0) return Status::unavailable(driver_.explain(kNoDevice, "counting the GPUs"));
  count_ = count;
  return {};
}

Status Devices::context(int device, Context* context) {
  RODA_RETURN_IF_ERROR(start());
  if (device < 0 || device >= count_) {
    return Status::invalid("CUDA: there is no device " + std::to_string(device) + ": this process sees " +
                           std::to_string(count_) + " (see CUDA_VISIBLE_DEVICES)");
  }
  const MutexLock lock(guard);
  Context& known = contexts[device];
  if (known == nullptr) {
    Ordinal handle = 0;
    RODA_RETURN_IF_ERROR(driver_.check(driver_.DeviceGet(&handle, device), "cuDeviceGet"));
    RODA_RETURN_IF_ERROR(driver_.check(driver_.PrimaryContextRetain(&known, handle),
                                       "the primary context of device " + std::to_string(device)));
  }
  *context = known;
  return {};
}

Status check_capture(const Driver& driver, Stream stream, const std::string& what) {
  int capture = kCaptureNone;
  const Result asked = driver.StreamIsCapturing(stream, &capture);
  if (asked == kCaptureImplicit || (asked == kSuccess && capture != kCaptureNone)) {
    return Status::unsupported(what +
                               ": the stream is recording a CUDA graph; collectives are negotiated while a program "
                               "runs and can't be part of a recording: call them outside of it");
  }
  return {};
}

Status check_stream(const Driver& driver, Stream stream, const std::string& what) {
  // First: asking a stream that records a graph anything else would spoil the recording.
  RODA_RETURN_IF_ERROR(check_capture(driver, stream, what));
  const Result state = driver.StreamQuery(stream);
  if (state == kSuccess || state == kNotReady) return {};
  return Status::system(what +
                        " was not begun: the GPU had failed before it: " + driver.explain(state, "cuStreamQuery"));
}

}  // namespace roda::cuda
