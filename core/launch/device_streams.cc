#include "core/launch/device_streams.h"

namespace roda::engine {

DeviceStreams::~DeviceStreams() {
  for (auto& [number, lanes] : lanes_) {
    for (void* stream : lanes.streams) device_->stream_destroy(stream);
  }
}

Status DeviceStreams::next(std::int32_t number, execute::DeviceQueue* queue) {
  if (device_ == nullptr) return Status::unavailable("no usable plugin for GPUs' memory; `roda-info` says why");
  Lanes& lanes = lanes_[number];
  const std::size_t slot = lanes.turn % slots_;
  if (slot == lanes.streams.size()) {
    roda_error error = make_error();
    void* stream = nullptr;
    RODA_RETURN_IF_ERROR(Status::from(device_->stream_create(number, &stream, &error), error));
    lanes.streams.push_back(stream);
  }
  ++lanes.turn;
  *queue = {device_, number, lanes.streams[slot], &lanes.abilities};
  return {};
}

}  // namespace roda::engine
