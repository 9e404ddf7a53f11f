#include "core/execute/staged_stage.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace roda::execute {
namespace {

std::size_t sum(const std::size_t* counts, int size) { return std::accumulate(counts, counts + size, std::size_t{0}); }

}  // namespace

StagedStage::StagedStage(std::unique_ptr<Stage> stage, int rank, int size) : own_(std::move(stage)) {
  wrap(own_.get(), rank, size);
}

void StagedStage::wrap(Stage* stage, int rank, int size, Way way) {
  inner_ = stage;
  way_ = way;
  rank_ = rank;
  size_ = size;
}

std::size_t StagedStage::input_bytes() const {
  const std::size_t element = roda_dtype_size(args_.dtype);
  const roda_collective_entry& data = *roda_collective_of(args_.collective);
  if (data.input == RODA_OWN_PART) return args_.recv_counts[rank_] * element;
  const bool is_by_pairs = data.input == RODA_ALL_PARTS && data.output == RODA_ALL_PARTS;
  return (is_by_pairs ? sum(args_.send_counts, size_) : args_.count) * element;
}

std::size_t StagedStage::output_bytes() const {
  const std::size_t element = roda_dtype_size(args_.dtype);
  if (!writes_output()) return 0;
  const int extent = roda_collective_of(args_.collective)->output;
  if (extent == RODA_OWN_PART) return args_.recv_counts[rank_] * element;
  return (extent == RODA_ALL_PARTS ? sum(args_.recv_counts, size_) : args_.count) * element;
}

StagedStage::~StagedStage() {
  if (!own_queue_.is_host()) own_queue_.device->stream_destroy(own_queue_.stream);
}

Status StagedStage::open_own_stream() {
  const DeviceQueue& queue = *args_.queue;
  if (!own_queue_.is_host() && own_queue_.number == queue.number) return {};
  if (!own_queue_.is_host()) own_queue_.device->stream_destroy(own_queue_.stream);
  own_queue_ = DeviceQueue{queue.device, queue.number, nullptr};
  return invoke(queue.device->stream_create, queue.number, &own_queue_.stream);
}

Status StagedStage::point_to_device() {
  RODA_RETURN_IF_ERROR(open_own_stream());
  const DeviceQueue& queue = *args_.queue;
  const auto range = [&](const void* address, std::size_t bytes) {
    return roda_memory{
        sizeof(roda_memory), queue.memory_kind(), queue.number, 0, const_cast<void*>(address), bytes, nullptr};
  };
  input_range_ = range(args_.input, input_bytes());
  output_range_ = range(args_.output, output_bytes());
  inner_args_ = args_;
  inner_args_.input_memory = &input_range_;
  inner_args_.output_memory = &output_range_;
  inner_args_.queue = &own_queue_;
  return {};
}

// What is reduced or broadcast stays where it is.
Status StagedStage::prepare_buffers() {
  const DeviceQueue& queue = *args_.queue;
  const auto staging = DeviceMemory::Place::kStaging;
  const bool in_place = roda_collective_of(args_.collective)->input == RODA_WHOLE;
  RODA_RETURN_IF_ERROR(
      output_.reserve(queue, staging, std::max({output_bytes(), in_place ? input_bytes() : 0, kLine})));
  if (!in_place) RODA_RETURN_IF_ERROR(input_.reserve(queue, staging, std::max(input_bytes(), kLine)));
  inner_args_ = args_;
  inner_args_.queue = nullptr;
  inner_args_.output = output_.data();
  inner_args_.input = in_place ? output_.data() : input_.data();
  if (args_.collective == RODA_BROADCAST) inner_args_.input = nullptr;
  if (!writes_output()) inner_args_.output = nullptr;
  return {};
}

Status StagedStage::copy_down() {
  if (way_ == Way::kDirect) return DeviceEvent::record(*args_.queue, &copied_);
  const void* from = args_.input == nullptr ? args_.output : args_.input;
  void* to = inner_args_.input == nullptr ? inner_args_.output : const_cast<void*>(inner_args_.input);
  if (reads_input()) RODA_RETURN_IF_ERROR(args_.queue->copy(to, from, input_bytes()));
  return DeviceEvent::record(*args_.queue, &copied_);
}

Status StagedStage::copy_up() {
  if (writes_output()) RODA_RETURN_IF_ERROR(args_.queue->copy(args_.output, output_.data(), output_bytes()));
  return DeviceEvent::record(*args_.queue, &copied_);
}

Status StagedStage::begin(const StageArgs& args) {
  args_ = args;
  RODA_RETURN_IF_ERROR(way_ == Way::kThroughHost ? prepare_buffers() : point_to_device());
  RODA_RETURN_IF_ERROR(copy_down());
  phase_ = Phase::kDown;
  return {};
}

// As many phases as go without waiting.
Status StagedStage::advance(bool* done) {
  bool over = false;
  if (phase_ == Phase::kDown) {
    RODA_RETURN_IF_ERROR(copied_->test(&over));
    if (!over || !may_enter_) return {};
    RODA_RETURN_IF_ERROR(inner_->start(inner_args_));
    phase_ = Phase::kInside;
    ++moves_;
  }
  if (phase_ == Phase::kInside) {
    if (const Status status = inner_->test(&over); !status.ok() || !over) {
      if (!status.ok()) phase_ = Phase::kIdle;
      return status;
    }
    phase_ = Phase::kIdle;
    ++moves_;
    if (way_ == Way::kThroughHost) {
      RODA_RETURN_IF_ERROR(copy_up());
      phase_ = Phase::kUp;
    }
  }
  if (phase_ == Phase::kUp) {
    RODA_RETURN_IF_ERROR(copied_->test(&over));
    if (!over) return {};
    phase_ = Phase::kIdle;
    ++moves_;
  }
  *done = true;
  return {};
}

bool StagedStage::release() {
  bool ended = true;
  if (phase_ == Phase::kInside) static_cast<void>(inner_->test(&ended));
  if (ended) phase_ = Phase::kIdle;
  return ended;
}

std::string StagedStage::describe() const {
  const std::string text = inner_ == nullptr ? "nothing" : inner_->describe();
  switch (phase_) {
    case Phase::kDown:
      return text + (way_ == Way::kDirect ? ": waits for the device" : ": being copied from the device");
    case Phase::kUp:
      return text + ": being copied to the device";
    default:
      return text;
  }
}

}  // namespace roda::execute
