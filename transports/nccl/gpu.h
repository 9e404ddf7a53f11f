// A GPU as this transport uses it: its primary context, streams of our own, and events for reuse.
#pragma once

#include <string>
#include <vector>

#include "plugins/base/cuda/devices.h"

namespace roda::nccl {

// One thread at a time. Entries throw sdk::Failure.
class Gpu {
 public:
  // Makes the device's primary context if nobody has: for a device that the user named.
  Gpu(const cuda::Driver& driver, int device);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  int device() const { return device_; }
  const cuda::Driver& driver() const { return driver_; }
  cuda::Context context() const { return context_; }
  const cuda::Uuid& uuid() const { return uuid_; }
  // "device 0 (NVIDIA H100)"
  std::string label() const;

  // Streams of the highest priority, at most `slots`, in turn.
  cuda::Stream next_stream(int slots);

  // An event recorded on the stream, from the pool.
  cuda::Event record(cuda::Stream stream);
  // kSuccess: what was before it is done. kNotReady, or the error that the device is in.
  cuda::Result query(cuda::Event event) const;
  // What comes on the stream next waits for the event.
  void hold(cuda::Stream stream, cuda::Event event) const;
  void give_back(cuda::Event event) { events_.push_back(event); }

 private:
  const cuda::Driver& driver_;
  const int device_;
  cuda::Context context_ = nullptr;
  cuda::Uuid uuid_{};
  std::vector<cuda::Stream> streams_;
  std::size_t turn_ = 0;
  std::vector<cuda::Event> events_;
};

}  // namespace roda::nccl
