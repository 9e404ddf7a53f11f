// The GPUs of this process: which there are, whose memory a pointer is, and their primary contexts, which PyTorch and
// every user of CUDA's runtime API share.
#pragma once

#include <string>

#include "plugins/base/cuda/driver.h"

namespace roda::cuda {

// Any thread. Statuses name the device.
class Devices {
 public:
  // The one of this shared object; does nothing yet.
  static Devices& get(const Driver& driver) {
    static auto* devices = new Devices(driver);
    return *devices;
  }

  // Starts CUDA, if nobody has. From here on a forked child can't use it.
  Status start();
  int count() const { return count_; }

  // The device's primary context. It is made (and takes some hundred MB of the device) if nobody has made it, so this
  // is for devices that the user named. It is never given back: other users' pointers may depend on it.
  Status context(int device, Context* context);

  // The device that the range's memory lies on; -1: memory of the host, or unknown to CUDA. One call, so that nothing
  // is remembered of memory that may go.
  int device_of(const void* pointer) const {
    unsigned kind = 0;
    int device = -1;
    int attributes[] = {kPointerMemoryType, kPointerDeviceOrdinal};
    void* values[] = {&kind, &device};
    const Result asked = driver_.PointerGetAttributes(2, attributes, values, reinterpret_cast<Address>(pointer));
    return asked == kSuccess && kind == kMemoryDevice ? device : -1;
  }
  // The device of the context that is current to this thread; -1: none.
  int current_device() const {
    Context context = nullptr;
    Ordinal device = -1;
    if (driver_.ContextGetCurrent(&context) != kSuccess || context == nullptr) return -1;
    return driver_.ContextGetDevice(&device) == kSuccess ? device : -1;
  }
  // What a network's device has written before it told so the GPU's kernels see. Where that is not so, as before
  // Hopper, or not known, somebody would have to flush.
  bool orders_writes(int device) const {
    Ordinal handle = 0;
    int ordering = 0;
    return driver_.DeviceGet(&handle, device) == kSuccess &&
           driver_.DeviceGetAttribute(&ordering, kRdmaWritesOrdering, handle) == kSuccess &&
           ordering >= kOrderedForOwner;
  }
  Status uuid(int device, Uuid* uuid) const {
    Ordinal handle = 0;
    RODA_RETURN_IF_ERROR(driver_.check(driver_.DeviceGet(&handle, device), "cuDeviceGet"));
    return driver_.check(driver_.DeviceGetUuid(uuid, handle), "cuDeviceGetUuid of device " + std::to_string(device));
  }
  std::string name(int device) const {
    char text[128] = {};
    Ordinal handle = 0;
    if (driver_.DeviceGet(&handle, device) != kSuccess) return "";
    return driver_.DeviceGetName(text, sizeof text - 1, handle) == kSuccess ? text : "";
  }

 private:
  explicit Devices(const Driver& driver) : driver_(driver) {}
  const Driver& driver_;
  int count_ = 0;
};

// While it lives the context is current to this thread, and a graph that another thread records forbids this one
// nothing: queries and allocations would be errors, and spoil the recording.
class ContextScope {
 public:
  ContextScope(const Driver& driver, Context context) : driver_(driver), result_(driver.ContextPush(context)) {
    driver_.ExchangeCaptureMode(&mode_);
  }
  ~ContextScope() {
    driver_.ExchangeCaptureMode(&mode_);
    Context ignored = nullptr;
    if (result_ == kSuccess) driver_.ContextPop(&ignored);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  const Driver& driver_;
  const Result result_;
  int mode_ = kCaptureRelaxed;  // then the thread's own
};

// The stream records a graph, which what is put on it would become a part of; OK: it doesn't. `what` begins the text.
// The context is current.
Status check_capture(const Driver& driver, Stream stream, const std::string& what);
// The stream can't take more work: an earlier kernel failed, or it records a graph. OK otherwise. The same.
Status check_stream(const Driver& driver, Stream stream, const std::string& what);

}  // namespace roda::cuda
