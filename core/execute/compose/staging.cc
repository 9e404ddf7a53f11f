#include "core/execute/compose/staging.h"

#include <algorithm>
#include <numeric>

namespace roda::execute {

Staging::~Staging() {
  if (!own_queue_.is_host()) own_queue_.device->stream_destroy(own_queue_.stream);
}

std::size_t Staging::bytes(int extent, const std::size_t* counts) const {
  std::size_t elements = args_.count;
  if (extent == RODA_OWN_PART) elements = args_.recv_counts[rank_];
  if (extent == RODA_ALL_PARTS) elements = std::accumulate(counts, counts + size_, std::size_t{0});
  return elements * roda_dtype_size(args_.dtype);
}

std::size_t Staging::input_bytes() const {
  const roda_collective_entry& data = *roda_collective_of(args_.collective);
  const bool is_by_pairs = data.input == RODA_ALL_PARTS && data.output == RODA_ALL_PARTS;
  return bytes(data.input, is_by_pairs ? args_.send_counts : args_.recv_counts);
}

std::size_t Staging::output_bytes() const {
  return writes_output() ? bytes(roda_collective_of(args_.collective)->output, args_.recv_counts) : 0;
}

Status Staging::begin(const StageArgs& args, int rank, int size, Way way) {
  args_ = inner_ = args;
  rank_ = rank;
  size_ = size;
  RODA_RETURN_IF_ERROR(way == Way::kThroughHost ? copy_down() : point_to_device());
  return DeviceEvent::record(*args_.queue, &copied_);
}

// What is reduced or broadcast stays where it is.
Status Staging::copy_down() {
  const DeviceQueue& queue = *args_.queue;
  const auto staging = DeviceMemory::Place::kStaging;
  const bool in_place = roda_collective_of(args_.collective)->input == RODA_WHOLE;
  const std::size_t bytes = input_bytes();
  RODA_RETURN_IF_ERROR(output_.reserve(queue, staging, std::max({output_bytes(), in_place ? bytes : 0, kLine})));
  if (!in_place) RODA_RETURN_IF_ERROR(input_.reserve(queue, staging, std::max(bytes, kLine)));
  char* const input = (in_place ? output_ : input_).data();
  inner_.queue = nullptr;
  inner_.input = args_.collective == RODA_BROADCAST ? nullptr : input;
  inner_.output = writes_output() ? output_.data() : nullptr;
  if (!combines() && is_one_of_many()) return {};
  return queue.copy(input, args_.input == nullptr ? args_.output : args_.input, bytes);
}

Status Staging::copy_up() {
  if (writes_output()) RODA_RETURN_IF_ERROR(args_.queue->copy(args_.output, output_.data(), output_bytes()));
  return DeviceEvent::record(*args_.queue, &copied_);
}

Status Staging::point_to_device() {
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

Status Staging::open_own_stream() {
  const DeviceQueue& queue = *args_.queue;
  if (!own_queue_.is_host() && own_queue_.number == queue.number) return {};
  if (!own_queue_.is_host()) own_queue_.device->stream_destroy(own_queue_.stream);
  own_queue_ = DeviceQueue{queue.device, queue.number, nullptr};
  return invoke(queue.device->stream_create, queue.number, &own_queue_.stream);
}

}  // namespace roda::execute
