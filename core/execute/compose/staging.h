// Stages the data of one collective on a device whose stage does not put its work on the device's stream. A stage that
// works in host memory has the data copied down into pinned memory and back up; the copies run beside the launch's
// stream, and events order them with it. A stage that works on the device's memory directly (a schedule whose transport
// takes that memory in messages) only waits until the stream has come to the data.
//
// Threads: the holder of the engine's baton.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>

#include "core/execute/device_queue.h"
#include "core/execute/memory.h"
#include "core/execute/stage.h"

namespace roda::execute {

class Staging {
 public:
  Staging() = default;
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging() {
    if (!own_queue_.is_host()) own_queue_.device->stream_destroy(own_queue_.stream);
  }

  // Takes a collective on, whose `args` have a queue; `rank`, `size`: of its group. `data`: kStaged or kDirect. Copies
  // down start once the queue's stream has done its work up to now. The collective before may still be copied up.
  Status begin(const StageArgs& args, int rank, int size, StepData data) {
    args_ = inner_ = args;
    rank_ = rank;
    size_ = size;
    if (data == StepData::kStaged) return copy_down();
    RODA_RETURN_IF_ERROR(point_to_device());
    return DeviceEvent::record(*args_.queue, &copied_);
  }

  // The arguments that the stage is started with, once test() says that the data are there.
  const StageArgs& args() const { return inner_; }
  // After the stage's end: starts copying its output up. Later work on the queue's stream comes after the copy.
  Status copy_up() {
    if (!writes_output()) return {};
    DeviceQueue up;
    RODA_RETURN_IF_ERROR(args_.queue->for_copies(true, &up));
    RODA_RETURN_IF_ERROR(up.copy(args_.output, output_.data(), output_bytes()));
    RODA_RETURN_IF_ERROR(DeviceEvent::record(up, &copied_));
    output_.used_until(copied_);
    return up.stream == args_.queue->stream ? Status() : copied_->hold(args_.queue->stream);
  }

  // Whether the last copy, or the wait for the stream, is over.
  Status test(bool* over) const { return copied_->test(over); }
  // After an error: no copy can follow any more.
  bool is_quiet() const {
    bool is_over = true;
    if (copied_ != nullptr) static_cast<void>(copied_->test(&is_over));
    return is_over;
  }

 private:
  // Data that are reduced or broadcast are staged in one buffer, in place.
  Status copy_down() {
    const DeviceQueue& queue = *args_.queue;
    const auto staging = DeviceMemory::Kind::kStaging;
    const bool in_place = roda_collective_of(args_.collective)->input == RODA_WHOLE;
    const std::size_t bytes = input_bytes();
    RODA_RETURN_IF_ERROR(output_.reserve(queue, staging, std::max({output_bytes(), in_place ? bytes : 0, kLine})));
    if (!in_place) RODA_RETURN_IF_ERROR(input_.reserve(queue, staging, std::max(bytes, kLine)));
    char* const input = (in_place ? output_ : input_).data();
    inner_.queue = nullptr;
    inner_.input = args_.collective == RODA_BROADCAST ? nullptr : input;
    inner_.output = writes_output() ? output_.data() : nullptr;
    if (!combines() && is_one_of_many()) return DeviceEvent::record(queue, &copied_);
    DeviceQueue down;
    RODA_RETURN_IF_ERROR(queue.for_copies(false, &down));
    RODA_RETURN_IF_ERROR(down.follow(queue));
    RODA_RETURN_IF_ERROR(down.copy(input, args_.input == nullptr ? args_.output : args_.input, bytes));
    return DeviceEvent::record(down, &copied_);
  }

  Status point_to_device() {
    RODA_RETURN_IF_ERROR(open_own_stream());
    const auto range = [&](const void* address, std::size_t bytes) {
      return roda_memory{sizeof(roda_memory),
                         own_queue_.memory_kind(),
                         own_queue_.number,
                         0,
                         const_cast<void*>(address),
                         bytes,
                         nullptr};
    };
    input_range_ = range(args_.input, input_bytes());
    output_range_ = range(args_.output, output_bytes());
    inner_.input_memory = &input_range_;
    inner_.output_memory = &output_range_;
    inner_.queue = &own_queue_;
    return {};
  }

  Status open_own_stream() {
    const DeviceQueue& queue = *args_.queue;
    if (!own_queue_.is_host() && own_queue_.number == queue.number) return {};
    if (!own_queue_.is_host()) own_queue_.device->stream_destroy(own_queue_.stream);
    own_queue_ = DeviceQueue{queue.device, queue.number, nullptr};
    return invoke(queue.device->stream_create, queue.number, &own_queue_.stream);
  }

  bool is_one_of_many() const { return roda_collective_is(args_.collective, RODA_ROOTED) != 0 && rank_ != args_.root; }
  bool combines() const { return roda_collective_is(args_.collective, RODA_COMBINES) != 0; }
  bool writes_output() const { return !combines() || !is_one_of_many(); }
  std::size_t bytes(int extent, const std::size_t* counts) const {
    std::size_t elements = args_.count;
    if (extent == RODA_OWN_PART) elements = args_.recv_counts[rank_];
    if (extent == RODA_ALL_PARTS) elements = std::accumulate(counts, counts + size_, std::size_t{0});
    return elements * roda_dtype_size(args_.dtype);
  }

  std::size_t input_bytes() const {
    const roda_collective_entry& data = *roda_collective_of(args_.collective);
    const bool is_by_pairs = data.input == RODA_ALL_PARTS && data.output == RODA_ALL_PARTS;
    return bytes(data.input, is_by_pairs ? args_.send_counts : args_.recv_counts);
  }

  std::size_t output_bytes() const {
    return writes_output() ? bytes(roda_collective_of(args_.collective)->output, args_.recv_counts) : 0;
  }

  int rank_ = 0;
  int size_ = 1;
  StageArgs args_, inner_;
  DeviceMemory input_, output_;
  roda_memory input_range_{}, output_range_{};  // of the device, where the stage works on it
  DeviceQueue own_queue_;                       // then
  std::shared_ptr<DeviceEvent> copied_;
};

}  // namespace roda::execute
