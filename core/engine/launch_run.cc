#include "core/engine/launch_run.h"

#include <algorithm>
#include <cctype>
#include <cmath>

namespace roda::engine {

double averaging_factor(int dtype, double postscale, int members) {
  const double factor = postscale / members;
  const bool truncates = dtype <= RODA_INT64;
  const bool falls_short = std::abs(factor * members) < std::abs(postscale);
  return truncates && falls_short ? std::nextafter(factor, std::copysign(INFINITY, factor)) : factor;
}

std::int64_t reducescatter_rows(std::int64_t rows, int size, int rank) {
  return rows / size + (rank < rows % size ? 1 : 0);
}

LaunchRun::LaunchRun() : bucket_(roda_cpu_device()) {}

void LaunchRun::begin(negotiate::Launch launch, std::vector<Operation*> operations, SetRuntime* set, std::uint32_t slot,
                      const execute::DeviceQueue& queue) {
  launch_ = std::move(launch);
  operations_ = std::move(operations);
  set_ = set;
  slot_ = slot;
  queue_ = queue;
  bucket_.use(queue.device);
  devices_.clear();
  for (const std::int32_t device : head().devices) devices_ += "." + std::to_string(device);
  collective_ = head().collective;
  wanted_op_ = head().op;
  local_ = has_ended_ = has_groups_ = false;
  plan_ = nullptr;
  broken = false;
  seen_moves = 0;
  moved_at = std::chrono::steady_clock::now();
}

double LaunchRun::prescale() const { return head().prescale; }

double LaunchRun::postscale() const {
  const bool is_average = wanted_op_ == RODA_AVERAGE && op_ != RODA_AVERAGE;
  return is_average ? averaging_factor(head().dtype, head().postscale, set_->size()) : head().postscale;
}

Status LaunchRun::start(Planner* planner, Contexts* contexts, bool* started) {
  *started = true;
  if (set_->size() == 1) {
    local_ = true;
    RODA_RETURN_IF_ERROR(wait_for_producers());
    RODA_RETURN_IF_ERROR(run_locally());
    return end_on_stream();
  }
  const Plan* plan = nullptr;
  RODA_RETURN_IF_ERROR(find_plan(planner, &plan));
  plan_ = plan;
  int root = 0;
  if (head().collective == RODA_BROADCAST) {
    const auto& ranks = set_->options().ranks;
    root = static_cast<int>(std::lower_bound(ranks.begin(), ranks.end(), head().root) - ranks.begin());
  }
  RODA_RETURN_IF_ERROR(find_pools(*plan, root, contexts, started));
  if (!*started) return {};
  has_groups_ = true;
  find_groups_on_device();
  RODA_RETURN_IF_ERROR(wait_for_producers());

  execute::StageArgs args;
  args.collective = collective_;
  args.dtype = head().dtype;
  args.op = op_;
  args.launch = launch_.sequence;
  args.generation = set_->options().generation;
  args.slot = slot_;
  if (plan->stages.size() == 1 && !plan->staged && group()->slots() != 0) args.slot %= group()->slots();
  args.root = root;
  if (!queue_.is_host()) args.queue = &queue_;
  RODA_RETURN_IF_ERROR(acquire(*plan, args.root));
  if (Status s = prepare(&args); !s.ok()) {
    stage_.reset();
    return s;
  }
  if (Status s = stage_->start(args); !s.ok()) {
    stage_.reset();
    return s;
  }
  return {};
}

// A set of one: every collective is a copy and the factors.
Status LaunchRun::run_locally() {
  for (Operation* op : operations_) {
    if (op == nullptr || head().collective == RODA_BARRIER) continue;
    op->result_shape = op->request.shape;
    op->received_splits = op->request.splits;
    std::size_t bytes = op->bytes();
    if (head().collective == RODA_ALLTOALL) {
      op->result_shape[0] = op->request.splits[0];
      bytes = static_cast<std::size_t>(op->result_shape[0] * op->request.row_elements()) *
              roda_dtype_size(op->request.dtype);
    }
    RODA_RETURN_IF_ERROR(allocate_result(op, bytes));
    if (op->input != nullptr) RODA_RETURN_IF_ERROR(copy(op->output, op->input, bytes));
    const std::size_t count = bytes / roda_dtype_size(op->request.dtype);
    if (!reduces_all() && head().collective != RODA_REDUCESCATTER) continue;
    RODA_RETURN_IF_ERROR(scale(op->output, count, prescale()));
    RODA_RETURN_IF_ERROR(scale(op->output, count, postscale()));
  }
  return {};
}

Status LaunchRun::finish_outputs() {
  if (fused() && !reduces_all()) return unpack_bucket();
  Operation* op = operations_.front();
  if (head().collective == RODA_REDUCESCATTER) {
    return scale(op->output, recv_counts_[static_cast<std::size_t>(set_->options().rank)], postscale());
  }
  if (!reduces_all() || bucket_given_) return {};
  if (fused()) return bucket_.unpack(fused_.data(), postscale(), queue_.stream);
  if (op == nullptr) return {};
  return scale(op->output, static_cast<std::size_t>(head().elements(0)), postscale());
}

Status LaunchRun::advance(bool* done) {
  *done = true;
  if (stage_ != nullptr && !has_ended_) {
    RODA_RETURN_IF_ERROR(stage_->test(&has_ended_));
    if (queue_.is_host()) {
      *done = has_ended_;
      return *done ? finish_outputs() : Status();
    }
    const bool can_finish = completion_ == nullptr && (has_ended_ || stage_->is_on_stream());
    if (can_finish) RODA_RETURN_IF_ERROR(finish_outputs());
    if (can_finish) RODA_RETURN_IF_ERROR(end_on_stream());
  }
  bool is_over = true;
  if (completion_ != nullptr) RODA_RETURN_IF_ERROR(completion_->test(&is_over));
  *done = (stage_ == nullptr || has_ended_) && is_over;
  return {};
}

// Where several tensors travel as one, or changed ones. What works on a device's memory is told of it: every rank of a
// group does that for the same launches.
Status LaunchRun::ensure_fused(std::size_t bytes) {
  RODA_RETURN_IF_ERROR(fused_.ensure(queue_, group(), bytes));
  for (execute::TransportGroup* group : on_device_) fused_.register_with(*group);
  return {};
}

// The tensors' own streams: what comes on ours waits for what gives them their values.
Status LaunchRun::wait_for_producers() {
  const execute::DeviceEvent* last = nullptr;
  for (const Operation* op : operations_) {
    if (op == nullptr || op->ready.get() == last) continue;
    last = op->ready.get();
    RODA_RETURN_IF_ERROR(queue_.wait_for(last));
  }
  return {};
}

// Everything lies on the stream: an event behind it tells when it is done.
Status LaunchRun::end_on_stream() {
  if (queue_.is_host()) return {};
  RODA_RETURN_IF_ERROR(execute::DeviceEvent::record(queue_, &completion_));
  for (Operation* op : operations_) {
    if (op != nullptr) op->completion = completion_;
  }
  return {};
}

void LaunchRun::abort(const Status& cause) {
  if (stage_ != nullptr) stage_->abort(cause);
}

bool LaunchRun::quiesced() {
  for (Operation* op : operations_) {
    if (op == nullptr || local_) continue;
    for (execute::StagePool* pool : pools_) {
      if (pool == nullptr) continue;
      if (op->input != nullptr && !pool->group().quiesced(op->input, op->bytes())) return false;
      if (op->output != nullptr && !pool->group().quiesced(op->output, op->bytes())) return false;
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
  if (fused()) text += " and " + std::to_string(launch_.tensors.size() - 1) + " more";
  if (stage_ != nullptr) return text + " (" + stage_->describe() + ")";
  return text + (has_groups_ || local_ ? " (being prepared)" : " (connecting)");
}

std::string LaunchRun::activity() const {
  const std::string what = head().collective == RODA_BROADCAST ? "BCAST" : roda_collective_name(head().collective);
  std::string name;
  for (execute::StagePool* pool : pools_) {
    const std::string transport = pool == nullptr ? "" : pool->group().context().name();
    if (name.find(transport) == std::string::npos) name += (name.empty() ? "" : "_") + transport;
  }
  if (name.empty()) return "LOCAL_" + what;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
  return name + "_" + what;
}

void LaunchRun::finish() {
  stage_.reset();
  launch_.tensors.clear();
  operations_.clear();
  pools_.clear();
  on_device_.clear();
  local_ = false;
  completion_.reset();
  quiet_.reset();
}

}  // namespace roda::engine
