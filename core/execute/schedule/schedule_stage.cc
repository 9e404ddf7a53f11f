#include "core/execute/schedule/schedule_stage.h"

#include <algorithm>
#include <utility>

#include "plugins/devices/cpu/cpu_device.h"

namespace roda::execute {

using schedule::Collective;

namespace {

// Tests in a row without progress after which the group itself is asked: waiting for a signal alone never fails.
constexpr std::uint32_t kIdleTests = 256;

}  // namespace

ScheduleStage::ScheduleStage(TransportGroup& group, const ExecuteOptions& options, Program program)
    : group_(group), options_(options), program_(std::move(program)) {
  std::uint32_t width = std::max(options.slices_in_flight, 1u);
  if (program_.one_sided()) width = std::min(width, group.blocks_per_slot());
  for (std::uint32_t i = 0; i < width; ++i) runs_.push_back(std::make_unique<Run>(group_, program_, options_));
}

bool ScheduleStage::takes_buckets() const { return execute::takes_buckets(program_); }

Status ScheduleStage::check(const StageArgs& args) const {
  if (args.collective != static_cast<int>(program_.collective)) {
    return Status::invalid(std::string("a stage for ") + schedule::collective_name(program_.collective) +
                           " was started for " + roda_collective_name(args.collective));
  }
  if (roda_dtype_size(args.dtype) == 0) {
    return Status::invalid("unknown dtype " + std::to_string(args.dtype));
  }
  const bool is_adasum = program_.collective == Collective::kAdasum;
  const bool reduces = schedule::is(program_.collective, RODA_COMBINES) && !is_adasum;
  const roda_host& host = group_.context().host();
  std::uint64_t none = 0;
  if (reduces && host.reduce(host.self, &none, &none, &none, 0, args.dtype, args.op) != RODA_OK) {
    return Status::unsupported(std::string(roda_reduce_op_name(args.op)) + " of " + roda_dtype_name(args.dtype) +
                               " is not supported");
  }
  double products[3] = {};
  if (is_adasum && !cpu::adasum_dots(&none, &none, 0, args.dtype, products)) {
    return Status::unsupported(std::string("Adasum of ") + roda_dtype_name(args.dtype) + " is not supported");
  }
  if (is_adasum && args.queue != nullptr) {
    return Status::unsupported("Adasum works in host memory alone");
  }
  if (program_.one_sided() && args.slot >= group_.slots()) {
    return Status::invalid("slot " + std::to_string(args.slot) + " of " + std::to_string(group_.slots()));
  }
  if (args.bucket != nullptr && !takes_buckets()) {
    return Status::invalid(program_.algorithm + " takes no buckets");
  }
  if (args.queue != nullptr && program_.one_sided()) {
    return Status::unsupported(program_.algorithm + " works on windows, which are opened over host memory alone");
  }
  if (args.stage >= Tag::kMaxStages) return Status::invalid("a plan has at most 16 stages");
  return {};
}

Status ScheduleStage::start(const StageArgs& args) {
  RODA_RETURN_IF_ERROR(check(args));
  args_ = args;
  // Where one buffer may be input and output of an out-of-place schedule, and where ranks can't tell what lies where in
  // each other's windows, the data is staged even though peers could reach it.
  const bool aliases = program_.collective == Collective::kAllreduce && !program_.in_place;
  staged_ = program_.one_sided() && program_.collective != Collective::kBarrier &&
            (!args.reachable || aliases || args.bucket != nullptr || schedule::is_between_pairs(program_.collective));
  const bool whole = program_.one_sided() && !staged_;
  const std::size_t piece = whole ? SIZE_MAX / 2 : staged_ ? options_.block_bytes : options_.slice_bytes;
  layout_.plan(args_, program_.rank, program_.size, program_.chunks, piece, staged_);
  begun_ = ended_ = 0;
  idle_tests_ = 0;
  failure_ = Status();
  running_ = true;
  return {};
}

// Begins pieces in order, as runs become free.
Status ScheduleStage::refill() {
  while (begun_ < layout_.pieces() && begun_ - ended_ < runs_.size()) {
    RODA_RETURN_IF_ERROR(runs_[begun_ % runs_.size()]->begin(args_, layout_, begun_, staged_));
    ++begun_;
  }
  return {};
}

Status ScheduleStage::advance(Effort* effort) {
  while (ended_ < layout_.pieces()) {
    RODA_RETURN_IF_ERROR(refill());
    const std::uint64_t before = effort->moves;
    for (std::size_t piece = ended_; piece < begun_; ++piece) {
      RODA_RETURN_IF_ERROR(runs_[piece % runs_.size()]->advance(effort));
    }
    while (ended_ < begun_ && runs_[ended_ % runs_.size()]->idle()) ++ended_;
    if (effort->moves == before || effort->budget == 0) break;
  }
  return {};
}

Status ScheduleStage::test(bool* done) {
  *done = !running_;
  if (!running_) return failure_;
  if (failure_.ok() && group_.aborted()) failure_ = group_.cause();
  if (failure_.ok()) {
    Effort effort{options_.test_bytes, moves_};
    Status status = advance(&effort);
    idle_tests_ = effort.moves == moves_ ? idle_tests_ + 1 : 0;
    moves_ = effort.moves;
    if (status.ok() && idle_tests_ % kIdleTests == kIdleTests - 1) status = group_.health();
    if (status.ok()) {
      *done = ended_ == layout_.pieces();
      running_ = !*done;
      return {};
    }
    fail(status);
  }
  return end_failed(done);
}

void ScheduleStage::fail(const Status& cause) {
  failure_ = cause;
  group_.abort(cause);
}

// A failed stage is done when nothing that it started is pending.
Status ScheduleStage::end_failed(bool* done) {
  bool released = true;
  for (auto& run : runs_) released &= run->release();
  *done = released;
  running_ = !released;
  return released ? failure_ : Status();
}

void ScheduleStage::abort(const Status& cause) {
  if (running_ && failure_.ok()) failure_ = cause;
  group_.abort(cause);
}

std::string ScheduleStage::describe() const {
  std::string text = program_.algorithm + " over " + group_.context().name();
  if (!running_) return text + ": idle";
  text +=
      ", piece " + std::to_string(std::min(ended_ + 1, layout_.pieces())) + " of " + std::to_string(layout_.pieces());
  if (ended_ < begun_) text += ": " + runs_[ended_ % runs_.size()]->describe();
  return text;
}

}  // namespace roda::execute
