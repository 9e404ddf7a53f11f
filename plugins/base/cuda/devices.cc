#include "plugins/base/cuda/devices.h"

#include <map>

#include "plugins/base/mutex.h"

namespace roda::cuda {
namespace {

Mutex guard;
// Never destroyed, like the devices: helper threads may outlive main.
std::map<int, Context>& contexts RODA_GUARDED_BY(guard) = *new std::map<int, Context>;

}  // namespace

Devices& Devices::get(const Driver& driver) {
  static auto* devices = new Devices(driver);
  return *devices;
}

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

// One call, so that nothing is remembered of memory that may go.
int Devices::device_of(const void* pointer) const {
  unsigned kind = 0;
  int device = -1;
  int attributes[] = {kPointerMemoryType, kPointerDeviceOrdinal};
  void* values[] = {&kind, &device};
  const Result asked = driver_.PointerGetAttributes(2, attributes, values, reinterpret_cast<Address>(pointer));
  return asked == kSuccess && kind == kMemoryDevice ? device : -1;
}

int Devices::current_device() const {
  Context context = nullptr;
  Ordinal device = -1;
  if (driver_.ContextGetCurrent(&context) != kSuccess || context == nullptr) return -1;
  return driver_.ContextGetDevice(&device) == kSuccess ? device : -1;
}

bool Devices::orders_writes(int device) const {
  Ordinal handle = 0;
  int ordering = 0;
  return driver_.DeviceGet(&handle, device) == kSuccess &&
         driver_.DeviceGetAttribute(&ordering, kRdmaWritesOrdering, handle) == kSuccess && ordering >= kOrderedForOwner;
}

Status Devices::uuid(int device, Uuid* uuid) const {
  Ordinal handle = 0;
  RODA_RETURN_IF_ERROR(driver_.check(driver_.DeviceGet(&handle, device), "cuDeviceGet"));
  return driver_.check(driver_.DeviceGetUuid(uuid, handle), "cuDeviceGetUuid of device " + std::to_string(device));
}

std::string Devices::name(int device) const {
  char text[128] = {};
  Ordinal handle = 0;
  if (driver_.DeviceGet(&handle, device) != kSuccess) return "";
  return driver_.DeviceGetName(text, sizeof text - 1, handle) == kSuccess ? text : "";
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
