#include "core/execute/stage.h"

#include <algorithm>

#include "core/execute/device_queue.h"
#include "core/execute/group.h"
#include "plugins/base/invariant.h"

namespace roda::execute {

void GiveBack::operator()(Stage* stage) const { stage->taken_ = false; }

StageHandle take_free(const std::vector<std::unique_ptr<Stage>>& stages) {
  const auto free = std::ranges::find_if(stages, [](const auto& stage) { return !stage->taken_; });
  if (free == stages.end()) return nullptr;
  (*free)->taken_ = true;
  return StageHandle(free->get());
}

Status Stage::start(const StageArgs& args) {
  RODA_INVARIANT(!running_, "a stage starts when its run before has ended");
  RODA_RETURN_IF_ERROR(begin(args));
  failure_ = Status();
  running_ = true;
  return {};
}

Status Stage::test(bool* done) {
  *done = !running_;
  if (!running_) return failure_;
  if (failure_.ok()) {
    const Status status = advance(done);
    running_ = !*done;
    if (status.ok()) return {};
    failure_ = status;
    abort_groups(status);
  }
  *done = release();
  running_ = !*done;
  return *done ? failure_ : Status();
}

void Stage::abort(const Status& cause) {
  if (running_ && failure_.ok()) failure_ = cause;
  abort_groups(cause);
}

namespace {

// A native collective of a transport.
class NativeStage final : public Stage {
 public:
  explicit NativeStage(TransportGroup& group) : group_(group) {}

  bool is_on_stream() override {
    return is_running() && started_ && args_.stream != nullptr && group_.is_on_stream(request_);
  }
  std::uint64_t moves() const override { return moves_; }
  std::string describe() const override {
    const std::string text =
        std::string("native ") + roda_collective_name(args_.collective) + " over " + group_.context().name();
    return text + (!is_running() ? ": idle" : started_ ? ": under way" : ": not accepted yet");
  }

 private:
  Status begin(const StageArgs& args) override {
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
    args_.count = args.collective != RODA_ALLTOALL ? args.count : args.is_even ? args.send_counts[0] : 0;
    args_.send_counts = args.send_counts;
    args_.recv_counts = args.recv_counts;
    args_.tag = Tag{args.generation, args.launch, args.stage, 0, 0}.packed();
    args_.stream = args.queue == nullptr ? nullptr : args.queue->stream;
    RODA_INVARIANT(request_ == nullptr, "a native collective has one request at a time");
    number_ = group_.draw_number();
    started_ = false;
    return {};
  }

  Status advance(bool* done) override {
    int code = RODA_OK;
    if (!started_) {
      if (group_.aborted()) return group_.cause();
      if (!group_.is_next(number_)) return {};
      code = group_.start_collective(args_, &request_);
      if (code == RODA_AGAIN) return {};
      started_ = true;
      ++moves_;
    }
    if (code >= 0 && request_ != nullptr) code = group_.test_request(request_);
    if (code == RODA_IN_PROGRESS) return {};
    request_ = nullptr;
    ++moves_;
    *done = true;
    return group_.error(code);
  }

  void abort_groups(const Status& cause) override { group_.abort(cause); }
  bool release() override {
    if (request_ != nullptr && group_.test_request(request_) == RODA_IN_PROGRESS) return false;
    request_ = nullptr;
    return true;
  }

  TransportGroup& group_;
  roda_collective_args args_{};
  roda_request* request_ = nullptr;
  std::uint64_t number_ = 0;  // among the collectives of the group
  bool started_ = false;      // false: it is not its turn, or the transport said RODA_AGAIN so far
  std::uint64_t moves_ = 0;
};

}  // namespace

std::unique_ptr<Stage> make_native_stage(TransportGroup& group) { return std::make_unique<NativeStage>(group); }

}  // namespace roda::execute
