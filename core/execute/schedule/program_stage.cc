#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/execute/schedule/run.h"
#include "core/execute/slices.h"
#include "plugins/base/invariant.h"
#include "plugins/devices/cpu/cpu_device.h"

namespace roda::execute {
namespace {

using schedule::Collective;

// Tests in a row without progress after which the group itself is asked: waiting for a signal alone never fails.
constexpr std::uint32_t kIdleTests = 256;

// Runs a program over a group, in slices with several in flight. A library's own collective is one slice.
//
// Programs of messages run slice by slice on the user's memory; on a device (StageArgs::queue) that takes a context
// whose messages take it, all that came before on the queue's stream is over when the stage starts, and its copies and
// reductions are over on the stream when it ends. One-sided ones run block by block through staging memory of the
// transport, or where the user's memory lies if peers reach it there.
class ProgramStage final : public Stage {
 public:
  ProgramStage(std::shared_ptr<const Program> program, TransportGroup& group, const ExecuteOptions& options)
      : Stage(std::move(program)), group_(group), options_(options), program_(Stage::program()) {
    std::uint32_t width = program_.is_native ? 1 : slices().in_flight;
    if (program_.one_sided()) width = std::min(width, group.blocks_per_slot());
    for (std::uint32_t i = 0; i < width; ++i) runs_.add(std::make_unique<Run>(group_, program_, options_));
  }

  bool is_on_stream() override { return is_running() && runs_.oldest().is_on_stream(); }
  std::uint64_t moves() const override { return moves_; }
  std::string describe() const override {
    std::string text = program_.algorithm + " over " + group_.context().name();
    if (!is_running()) return text + ": idle";
    text += runs_.describe();
    return runs_.is_empty() ? text : text + ": " + runs_.oldest().describe();
  }

 private:
  plan::Slices slices() const { return plan::stage_slices(options_, program_.collective, program_.needs); }
  Status check(const StageArgs& args) const {
    RODA_INVARIANT(args.stage < Tag::kMaxStages, "a stage has a number of its own among those of a launch");
    if (program_.is_native) return check_native(args);
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
    const bool has_format = args.dtype == RODA_FLOAT32 && args.op == RODA_SUM && args.queue == nullptr;
    if (program_.is_formatted && !has_format) {
      return Status::unsupported(program_.algorithm + " sums float32 in host memory, and nothing else");
    }
    if (program_.one_sided() && args.slot >= group_.slots()) {
      return Status::invalid("slot " + std::to_string(args.slot) + " of " + std::to_string(group_.slots()));
    }
    if (args.queue != nullptr && program_.one_sided()) {
      return Status::unsupported(program_.algorithm + " works on windows, which are opened over host memory alone");
    }
    return {};
  }

  Status check_native(const StageArgs& args) const {
    const int kind = args.queue == nullptr ? int{RODA_MEMORY_HOST} : args.queue->memory_kind();
    if (group_.context().supports(args.collective, args.dtype, args.op, kind)) return {};
    return Status::unsupported(std::string(group_.context().name()) + " has no " + program_.algorithm + " for " +
                               roda_dtype_name(args.dtype));
  }

  Status begin(const StageArgs& args) override {
    RODA_RETURN_IF_ERROR(check(args));
    args_ = args;
    idle_tests_ = 0;
    if (program_.is_native) {
      runs_.reset(1);
      return begin_slices();  // whose place among the group's own collectives is fixed here
    }
    const bool in_blocks = program_.one_sided();
    layout_.plan(args_, program_.rank, program_.size, program_.chunks, slices().bytes, in_blocks, grain_of(program_));
    runs_.reset(layout_.slices());
    return {};
  }

  Status advance(bool* done) override {
    if (group_.aborted()) return group_.cause();
    Effort effort{options_.test_bytes, moves_};
    while (!runs_.has_ended()) {
      const std::uint64_t before = effort.moves;
      RODA_RETURN_IF_ERROR(advance(&effort));
      if (effort.moves == before || effort.budget == 0) break;
    }
    idle_tests_ = effort.moves == moves_ ? idle_tests_ + 1 : 0;
    moves_ = effort.moves;
    if (idle_tests_ % kIdleTests == kIdleTests - 1) RODA_RETURN_IF_ERROR(group_.health());
    *done = runs_.has_ended();
    return {};
  }

  Status begin_slices() {
    return runs_.begin([&](Run& run, std::size_t slice) { return run.begin(args_, layout_, slice); });
  }

  Status advance(Effort* effort) {
    if (runs_.has_room()) RODA_RETURN_IF_ERROR(begin_slices());
    return runs_.advance([&](Run& run) { return run.advance(effort); },
                         [&](const Run& run, std::size_t slice) { tell_of_slice(run, slice); });
  }

  // Adds the slice that has ended to the trace. A stage of one slice adds nothing: its launch is traced as a whole.
  void tell_of_slice(const Run& run, std::size_t slice) const {
    if (args_.trace == nullptr || layout_.slices() == 1) return;
    args_.trace->add("SLICE", static_cast<int>(slice % runs_.places().size()), slice, run.began());
  }

  void abort_groups(const Status& cause) override { group_.abort(cause); }
  bool release() override {
    bool released = true;
    for (auto& run : runs_.places()) released &= run->release();
    return released;
  }

  TransportGroup& group_;
  const ExecuteOptions& options_;
  const Program& program_;
  Pipeline<Run> runs_;
  StageArgs args_;
  Layout layout_;
  std::uint64_t moves_ = 0;
  std::uint32_t idle_tests_ = 0;  // in a row
};

// What a transport lacks.
Status check(const Program& program, TransportGroup& group) {
  const TransportContext& context = group.context();
  const std::string transport = context.name();
  if (program.is_native && !context.has(RODA_CAP_NATIVE)) {
    return Status::unsupported(transport + " has no native collectives");
  }
  if ((program.needs & ~context.needs_met()) != 0) {
    return Status::unsupported(transport + " lacks what " + program.algorithm + " needs");
  }
  if (program.one_sided() && group.slots() == 0) {
    return Status::unsupported(transport + " has too few signals or windows");
  }
  return {};
}

}  // namespace

Status make_stage(std::shared_ptr<const Program> program, TransportGroup& group, const ExecuteOptions& options,
                  std::unique_ptr<Stage>* stage) {
  RODA_RETURN_IF_ERROR(check(*program, group));
  *stage = std::make_unique<ProgramStage>(std::move(program), group, options);
  return {};
}

}  // namespace roda::execute
