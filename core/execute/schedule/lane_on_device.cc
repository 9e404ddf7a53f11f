// LaneRun: copies and reductions of data on a device. They are put on the stream, and the lane goes on when they are
// over: what it sends next was made by them, and a message must not come where they still read.
#include "core/execute/schedule/lane_run.h"

namespace roda::execute {

Status LaneRun::is_device_idle(bool* idle) {
  *idle = true;
  if (device_work_ == nullptr) return {};
  RODA_RETURN_IF_ERROR(device_work_->test(idle));
  if (*idle) device_work_.reset();
  return {};
}

Status LaneRun::reserve_bounce(std::size_t half_bytes) {
  if (view_.queue == nullptr) return {};
  const std::size_t bytes = 2 * align_up(half_bytes);
  RODA_RETURN_IF_ERROR(bounce_on_device_.reserve(*view_.queue, DeviceMemory::Place::kDevice, bytes));
  bounce_on_device_.register_with(*view_.group);
  return {};
}

Status LaneRun::reduce_on_device(char* dst, const char* a, const char* b, std::size_t bytes) {
  const DeviceQueue& queue = *view_.queue;
  roda_error error = make_error();
  const int code = queue.device->reduce(dst, a, b, bytes / view_.element, view_.dtype, view_.op, queue.stream, &error);
  return Status::from(code, error);
}

// Schedules of messages combine what is local.
Status LaneRun::combine_on_device(const Op& op, Turn* turn) {
  const std::size_t total = view_.bytes(op.dst);
  char* dst = view_.address(op.dst);
  if (total != 0 && state_.done == 0) {
    if (op.sources == 1) RODA_RETURN_IF_ERROR(view_.queue->copy(dst, local(0), total));
    for (std::uint32_t s = 1; s < op.sources; ++s) {
      RODA_RETURN_IF_ERROR(reduce_on_device(dst, s == 1 ? local(0) : dst, local(s), total));
    }
    RODA_RETURN_IF_ERROR(DeviceEvent::record(*view_.queue, &device_work_));
    state_.done = total;
  }
  bool idle = true;
  RODA_RETURN_IF_ERROR(is_device_idle(&idle));
  *turn = idle ? Turn::kDone : Turn::kBlocked;
  return {};
}

}  // namespace roda::execute
