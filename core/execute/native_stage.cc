#include "core/execute/native_stage.h"

#include "core/execute/device/device_queue.h"
#include "core/execute/schedule/run_view.h"

namespace roda::execute {

Status NativeStage::start(const StageArgs& args) {
  const int kind = args.queue == nullptr ? int{RODA_MEMORY_HOST} : args.queue->memory_kind();
  if (!group_.context().supports(args.collective, args.dtype, args.op, kind)) {
    return Status::unsupported(std::string(group_.context().name()) + " has no native " +
                               roda_collective_name(args.collective) + " for " + roda_dtype_name(args.dtype));
  }
  args_ = roda_collective_args{};
  args_.struct_size = sizeof args_;
  args_.collective = args.collective;
  args_.dtype = args.dtype;
  args_.op = args.op;
  args_.root = args.root;
  args_.memory_kind = kind;
  args_.input = args.input == nullptr && args.collective == RODA_BROADCAST ? args.output : args.input;
  args_.output = args.output;
  args_.count = args.count;
  args_.send_counts = args.send_counts;
  args_.recv_counts = args.recv_counts;
  args_.tag = Tag{args.generation, args.launch, args.stage, 0, 0}.packed();
  args_.stream = args.queue == nullptr ? nullptr : args.queue->stream;
  request_ = nullptr;
  failure_ = Status();
  number_ = group_.draw_number();
  running_ = true;
  started_ = false;
  return {};
}

Status NativeStage::test(bool* done) {
  *done = !running_;
  if (!running_) return failure_;
  if (!started_) {
    if (group_.aborted()) {
      running_ = false;
      *done = true;
      return failure_ = group_.cause();
    }
    if (!group_.is_next(number_)) return {};
    const int code = group_.start_collective(args_, &request_);
    if (code == RODA_AGAIN) return {};
    started_ = true;
    ++moves_;
    if (code < 0 || request_ == nullptr) {
      *done = true;
      return finish(code);
    }
  }
  const int code = group_.test_request(request_);
  if (code == RODA_IN_PROGRESS) return {};
  *done = true;
  return finish(code);
}

Status NativeStage::finish(int code) {
  running_ = false;
  request_ = nullptr;
  ++moves_;
  const Status status = group_.error(code);
  if (failure_.ok()) failure_ = status;
  if (!failure_.ok()) group_.abort(failure_);
  return failure_;
}

bool NativeStage::is_on_stream() {
  return running_ && started_ && args_.stream != nullptr && group_.is_on_stream(request_);
}

void NativeStage::abort(const Status& cause) {
  if (running_ && failure_.ok()) failure_ = cause;
  group_.abort(cause);
}

std::string NativeStage::describe() const {
  const std::string text =
      std::string("native ") + roda_collective_name(args_.collective) + " over " + group_.context().name();
  return text + (!running_ ? ": idle" : started_ ? ": under way" : ": not accepted yet");
}

}  // namespace roda::execute
