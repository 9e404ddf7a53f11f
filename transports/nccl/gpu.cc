#include "transports/nccl/gpu.h"

#include "transports/nccl/explain.h"

namespace roda::nccl {

Gpu::Gpu(const cuda::Driver& driver, int device) : driver_(driver), device_(device) {
  cuda::Devices& devices = cuda::Devices::get(driver);
  check(devices.context(device, &context_));
  check(devices.uuid(device, &uuid_));
}

Gpu::~Gpu() {
  const cuda::ContextScope scope(driver_, context_);
  for (const cuda::Event event : events_) driver_.EventDestroy(event);
  for (const cuda::Stream stream : streams_) driver_.StreamDestroy(stream);
}

std::string Gpu::label() const {
  return "device " + std::to_string(device_) + " (" + cuda::Devices::get(driver_).name(device_) + ")";
}

cuda::Stream Gpu::next_stream(int slots) {
  const std::size_t slot = turn_++ % static_cast<std::size_t>(slots);
  if (slot < streams_.size()) return streams_[slot];
  const cuda::ContextScope scope(driver_, context_);
  int least = 0, greatest = 0;
  check(driver_.check(driver_.ContextGetPriorities(&least, &greatest), "cuCtxGetStreamPriorityRange"));
  cuda::Stream stream = nullptr;
  check(driver_.check(driver_.StreamCreate(&stream, cuda::kStreamNonBlocking, greatest), "cuStreamCreateWithPriority"));
  streams_.push_back(stream);
  return stream;
}

cuda::Event Gpu::record(cuda::Stream stream) {
  const cuda::ContextScope scope(driver_, context_);
  cuda::Event event = nullptr;
  if (events_.empty()) {
    check(driver_.check(driver_.EventCreate(&event, cuda::kEventDisableTiming), "cuEventCreate"));
  } else {
    event = events_.back();
    events_.pop_back();
  }
  const Status recorded = driver_.check(driver_.EventRecord(event, stream), "cuEventRecord");
  if (!recorded.ok()) events_.push_back(event);
  check(recorded);
  return event;
}

void Gpu::hold(cuda::Stream stream, cuda::Event event) const {
  const cuda::ContextScope scope(driver_, context_);
  check(driver_.check(driver_.StreamWaitEvent(stream, event, 0), "cuStreamWaitEvent"));
}

cuda::Result Gpu::query(cuda::Event event) const {
  const cuda::ContextScope scope(driver_, context_);
  return driver_.EventQuery(event);
}

}  // namespace roda::nccl
