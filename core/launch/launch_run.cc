#include "core/launch/launch_run.h"

#include <cctype>
#include <utility>

#include "core/execute/layout.h"
#include "plugins/base/invariant.h"

namespace roda::engine {

void LaunchRun::begin(negotiate::Launch& launch, std::vector<Operation*>& operations, SetRuntime* set,
                      std::uint32_t slot, const execute::DeviceQueue& queue, StreamBuffers* of_stream) {
  RODA_INVARIANT(!started() && operations_.empty(), "a run takes one launch on after the other");
  std::swap(launch_, launch);
  operations_.swap(operations);
  set_ = set;
  slot_ = slot;
  queue_ = queue;
  of_stream_ = of_stream;
  bound_ = {{head().collective, head().op}, {0, 0, head().placement}};
  payload_.begin(launch_, &operations_, {set->options().ranks, set->options().rank}, queue);
  is_local_ = has_ended_ = has_groups_ = has_told_ = false;
  trace_.clear();
  broken = false;
  seen_moves = 0;
  moved_at = {};
  looks = 0;
}

Status LaunchRun::start() {
  RODA_INVARIANT(has_groups_ && !started(), "a launch starts once, when its groups are formed");
  execute::Trace* const trace = notes_parts_ ? &trace_ : nullptr;
  payload_.tell(trace);
  if (set_->size() == 1) {
    is_local_ = true;
    RODA_RETURN_IF_ERROR(wait_for_producers());
    RODA_RETURN_IF_ERROR(payload_.run_locally(bound_.work));
    return end_on_stream();
  }
  RODA_RETURN_IF_ERROR(wait_for_producers());

  const Work& work = bound_.work;
  execute::StageArgs args;
  args.collective = work.collective;
  args.dtype = head().dtype;
  args.op = work.stage_op();
  args.launch = launch_.sequence;
  args.generation = set_->options().generation;
  const bool is_divided = groups().size() == 1 && !plan().staged && only_group()->slots() != 0;
  args.slot = is_divided ? slot_ % only_group()->slots() : slot_;
  args.root = bound_.use.root;
  if (!queue_.is_host()) args.queue = &queue_;
  args.trace = trace;
  const auto make = [this](std::unique_ptr<execute::Stage>* made) { return make_stage(made); };
  RODA_RETURN_IF_ERROR(bound_.route->stages.take(make, &stage_));
  Payload::Means means{only_group(), bound_.route->on_device, queue_.is_host() && stage_->takes_buckets(),
                       groups().size() > 1, execute::grain_of(stage_->program())};
  if (stage_->program().is_formatted) {
    means.wire = &set_->wire_memory();
    means.feeds_back = bound_.route->feeds_back;
  }
  if (needs().stream_order) {
    const bool may_lend = means.group->context().has(RODA_CAP_ALLOCATE);
    means.buffers = &(*of_stream_)[may_lend ? means.group : nullptr];
  }
  Status status = payload_.prepare(work, means, &args);
  if (status.ok()) status = stage_->start(args);
  if (!status.ok()) stage_.reset();
  return status;
}

Status LaunchRun::advance(bool* done) {
  RODA_INVARIANT(started(), "a launch that moves on has started");
  *done = true;
  if (stage_ != nullptr && !has_ended_) {
    RODA_RETURN_IF_ERROR(stage_->test(&has_ended_));
    if (queue_.is_host()) {
      *done = has_ended_;
      return *done ? payload_.finish() : Status();
    }
    const bool can_finish = completion_ == nullptr && (has_ended_ || stage_->is_on_stream());
    if (can_finish) RODA_RETURN_IF_ERROR(payload_.finish());
    if (can_finish) RODA_RETURN_IF_ERROR(end_on_stream());
  }
  bool is_over = true;
  if (completion_ != nullptr) RODA_RETURN_IF_ERROR(completion_->test(&is_over));
  *done = (stage_ == nullptr || has_ended_) && is_over;
  return {};
}

// The tensors' own streams: what comes on ours waits for what gives them their values. Of each the latest point.
Status LaunchRun::wait_for_producers() {
  producers_.clear();
  for (const Operation* op : operations_) {
    Producer* const ready = op == nullptr ? nullptr : op->ready.get();
    if (ready == nullptr || (!producers_.empty() && producers_.back() == ready)) continue;
    const auto known = std::ranges::find(producers_, ready->stream(), &Producer::stream);
    if (known == producers_.end()) {
      producers_.push_back(ready);
    } else if ((*known)->number() < ready->number()) {
      *known = ready;
    }
  }
  for (Producer* producer : producers_) RODA_RETURN_IF_ERROR(producer->hold(queue_.stream));
  return {};
}

// Everything lies on the stream: an event behind it tells when it is done.
Status LaunchRun::end_on_stream() {
  if (queue_.is_host()) return {};
  RODA_INVARIANT(completion_ == nullptr, "the end of a launch is noted on its stream once");
  RODA_RETURN_IF_ERROR(execute::DeviceEvent::record(queue_, &completion_));
  if (!is_local_) payload_.used_until(completion_);
  for (Operation* op : operations_) {
    if (op == nullptr) continue;
    op->completion = completion_;
    if (op->result != nullptr) op->result->completion = completion_;
  }
  return {};
}

bool LaunchRun::quiesced() {
  for (Operation* op : operations_) {
    if (op == nullptr || is_local_) continue;
    for (execute::TransportGroup* group : groups()) {
      if (group == nullptr) continue;
      if (op->input != nullptr && !group->quiesced(op->input, op->bytes())) return false;
      if (op->output != nullptr && !group->quiesced(op->output, op->bytes())) return false;
    }
  }
  if (queue_.is_host()) return true;
  // A device in an error takes no event, and runs nothing any more.
  if (quiet_ == nullptr && !execute::DeviceEvent::record(queue_, &quiet_).ok()) return true;
  bool is_over = true;
  static_cast<void>(quiet_->test(&is_over));
  return is_over;
}

std::string LaunchRun::describe() const {
  std::string text = std::string(roda_collective_name(head().collective)) + " '" + head().name + "'";
  if (launch_.tensors.size() > 1) text += " and " + std::to_string(launch_.tensors.size() - 1) + " more";
  if (stage_ != nullptr) return text + " (" + stage_->describe() + ")";
  return text + (has_groups_ ? " (being prepared)" : " (connecting)");
}

std::string LaunchRun::activity() const {
  const std::string what = head().collective == RODA_BROADCAST ? "BCAST" : roda_collective_name(head().collective);
  std::string name;
  for (execute::TransportGroup* group : groups()) {
    const std::string transport = group == nullptr ? "" : group->context().name();
    if (name.find(transport) == std::string::npos) name += (name.empty() ? "" : "_") + transport;
  }
  if (name.empty()) return "LOCAL_" + what;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
  return name + "_" + what;
}

std::string LaunchRun::what_runs() const {
  const std::string text = stage_ == nullptr ? "" : stage_->describe();
  return text.substr(0, text.find_first_of(",:"));
}

std::size_t LaunchRun::bytes() const {
  if (head().collective == RODA_BARRIER) return 0;
  std::size_t sum = 0;
  for (const negotiate::AgreedPtr& tensor : launch_.tensors) {
    sum += tensor->bytes(static_cast<std::size_t>(set_->options().rank));
  }
  return sum;
}

void LaunchRun::finish() {
  stage_.reset();
  launch_.tensors.clear();
  operations_.clear();
  bound_.route = nullptr;
  is_local_ = false;
  completion_.reset();
  quiet_.reset();
}

}  // namespace roda::engine
