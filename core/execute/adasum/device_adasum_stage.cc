#include "core/execute/adasum/device_adasum_stage.h"

#include <algorithm>

#include "core/execute/schedule/layout.h"

namespace roda::execute {
namespace {

// The halves that the levels inside a host keep, taken from the outermost bit: the order of the shares.
int reversed(int number, int size) {
  int result = 0;
  for (int bit = 1; bit < size; bit *= 2) {
    result = result * 2 + (number & 1);
    number /= 2;
  }
  return result;
}

}  // namespace

AdasumStage::Arrangement DeviceAdasumStage::scattered(const std::vector<std::vector<int>>& hosts) {
  AdasumStage::Arrangement arrangement;
  const auto size = static_cast<int>(hosts.front().size());
  arrangement.averaged = size;
  arrangement.is_scattered = true;
  for (const std::vector<int>& host : hosts) {
    for (int place = 0; place < size; ++place) {
      arrangement.rank_at.push_back(host[static_cast<std::size_t>(reversed(place, size))]);
    }
  }
  return arrangement;
}

void DeviceAdasumStage::count_shares() {
  const int size = inside_.group().size();
  shares_.clear();
  for (int rank = 0; rank < size; ++rank) {
    shares_.push_back(adasum::levels(reversed(rank, size), size, args_.count).back().keeps.count);
  }
  own_bytes_ = shares_[static_cast<std::size_t>(inside_.group().rank())] * roda_dtype_size(args_.dtype);
}

Status DeviceAdasumStage::start_native(int collective, const void* input, void* output) {
  RODA_RETURN_IF_ERROR(inside_.acquire(collective, "native", 0, &native_));
  StageArgs args = args_;
  args.collective = collective;
  args.op = RODA_SUM;
  args.input = input;
  args.output = output;
  args.recv_counts = shares_.data();
  if (const Status s = native_->start(args); !s.ok()) {
    native_.reset();
    return s;
  }
  running_ = native_.get();
  return {};
}

Status DeviceAdasumStage::start(const StageArgs& args) {
  args_ = args;
  failure_ = Status();
  count_shares();
  const std::size_t bytes = std::max(own_bytes_, kLine);
  RODA_RETURN_IF_ERROR(share_.reserve(*args_.queue, DeviceMemory::Place::kDevice, bytes));
  RODA_RETURN_IF_ERROR(staging_.reserve(*args_.queue, DeviceMemory::Place::kStaging, bytes));
  RODA_RETURN_IF_ERROR(start_native(RODA_REDUCESCATTER, args_.input, share_.data()));
  phase_ = Phase::kScatter;
  return {};
}

// The sum of the host's ranks becomes their average.
Status DeviceAdasumStage::copy_down() {
  const DeviceQueue& queue = *args_.queue;
  const std::size_t count = own_bytes_ / roda_dtype_size(args_.dtype);
  RODA_RETURN_IF_ERROR(queue.scale(share_.data(), count, args_.dtype, 1.0 / inside_.group().size()));
  RODA_RETURN_IF_ERROR(queue.copy(staging_.data(), share_.data(), own_bytes_));
  return DeviceEvent::record(queue, &copied_);
}

Status DeviceAdasumStage::start_across() {
  StageArgs args = args_;
  args.queue = nullptr;
  args.input = args.output = staging_.data();
  RODA_RETURN_IF_ERROR(across_->start(args));
  running_ = across_.get();
  return {};
}

Status DeviceAdasumStage::start_gather() {
  RODA_RETURN_IF_ERROR(args_.queue->copy(share_.data(), staging_.data(), own_bytes_));
  return start_native(RODA_ALLGATHER, share_.data(), args_.output);
}

// One phase further, unless something has to come first.
Status DeviceAdasumStage::advance(bool* waits) {
  bool over = false;
  if (phase_ == Phase::kDown) {
    RODA_RETURN_IF_ERROR(copied_->test(&over));
  } else {
    const Status status = running_->test(&over);
    if (over || !status.ok()) {
      moves_ += running_->moves();
      running_ = nullptr;
      native_.reset();
    }
    RODA_RETURN_IF_ERROR(status);
  }
  *waits = !over;
  if (!over) return {};
  ++moves_;
  switch (phase_) {
    case Phase::kScatter:
      phase_ = Phase::kDown;
      return copy_down();
    case Phase::kDown:
      phase_ = Phase::kAcross;
      return start_across();
    case Phase::kAcross:
      phase_ = Phase::kGather;
      return start_gather();
    default:
      phase_ = Phase::kIdle;
      return {};
  }
}

Status DeviceAdasumStage::test(bool* done) {
  bool waits = false;
  while (!waits && failure_.ok() && phase_ != Phase::kIdle) {
    if (const Status status = advance(&waits); !status.ok()) {
      failure_ = status;
      across_->abort(status);
      inside_.group().abort(status);
    }
  }
  *done = phase_ == Phase::kIdle;
  return failure_.ok() ? Status() : end_failed(done);
}

Status DeviceAdasumStage::end_failed(bool* done) {
  *done = true;
  if (running_ != nullptr) static_cast<void>(running_->test(done));
  if (!*done) return {};
  running_ = nullptr;
  native_.reset();
  phase_ = Phase::kIdle;
  return failure_;
}

void DeviceAdasumStage::abort(const Status& cause) {
  if (phase_ != Phase::kIdle && failure_.ok()) failure_ = cause;
  across_->abort(cause);
  inside_.group().abort(cause);
}

std::string DeviceAdasumStage::describe() const {
  const std::string text = "adasum between hosts";
  if (running_ != nullptr) return text + ": " + running_->describe();
  return text + (phase_ == Phase::kIdle ? ": idle" : ": being copied from the device");
}

}  // namespace roda::execute
