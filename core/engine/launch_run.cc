#include "core/engine/launch_run.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "core/execute/adasum/adasum_stage.h"
#include "core/execute/compose/composed_stage.h"
#include "core/execute/compose/make.h"
#include "plugins/devices/cpu/cpu_device.h"

namespace roda::engine {
namespace {

Status device_status(int code, const roda_error& error) { return Status::from(code, error); }

}  // namespace

Status copy(void* dst, const void* src, std::size_t bytes) {
  if (dst == src || bytes == 0) return {};
  roda_error error = make_error();
  return device_status(roda_cpu_device()->copy(dst, src, bytes, nullptr, &error), error);
}

double averaging_factor(int dtype, double postscale, int members) {
  const double factor = postscale / members;
  const bool truncates = dtype <= RODA_INT64;
  const bool falls_short = std::abs(factor * members) < std::abs(postscale);
  return truncates && falls_short ? std::nextafter(factor, std::copysign(INFINITY, factor)) : factor;
}

std::int64_t reducescatter_rows(std::int64_t rows, int size, int rank) {
  return rows / size + (rank < rows % size ? 1 : 0);
}

Status FusionBuffer::ensure(execute::TransportGroup* group, std::size_t bytes) {
  const bool from_group = group != nullptr && group->context().has(RODA_CAP_ALLOCATE);
  const bool same_source = from_group ? group_ == group : group_ == nullptr;
  if (memory_.address != nullptr && same_source && memory_.length >= bytes) return {};
  release();
  std::size_t length = std::size_t{64} << 10;
  while (length < bytes) length *= 2;
  if (from_group) {
    RODA_RETURN_IF_ERROR(group->allocate(length, &memory_));
    group_ = group;
    return {};
  }
  memory_ = roda_memory{};
  memory_.struct_size = sizeof memory_;
  memory_.device = -1;
  memory_.length = length;
  memory_.address = std::aligned_alloc(4096, length);
  if (memory_.address == nullptr) {
    return Status::no_memory("No memory for a fusion buffer of " + std::to_string(length) +
                             " bytes; lower HOROVOD_FUSION_THRESHOLD");
  }
  return {};
}

void FusionBuffer::release() {
  if (memory_.address == nullptr) return;
  if (group_ != nullptr) {
    group_->free(&memory_);
  } else {
    std::free(memory_.address);
  }
  group_ = nullptr;
  memory_ = roda_memory{};
}

LaunchRun::LaunchRun() : bucket_(roda_cpu_device()) {}

void LaunchRun::begin(negotiate::Launch launch, std::vector<Operation*> operations, SetRuntime* set,
                      std::uint32_t slot) {
  launch_ = std::move(launch);
  operations_ = std::move(operations);
  set_ = set;
  slot_ = slot;
  local_ = false;
  broken = false;
  seen_moves = 0;
  moved_at = std::chrono::steady_clock::now();
}

double LaunchRun::prescale() const { return head().prescale; }

double LaunchRun::postscale() const {
  return head().op == RODA_AVERAGE ? averaging_factor(head().dtype, head().postscale, set_->size()) : head().postscale;
}

Status LaunchRun::scale(void* data, std::size_t count, double factor) {
  if (factor == 1.0 || count == 0) return {};
  roda_error error = make_error();
  return device_status(roda_cpu_device()->scale(data, count, head().dtype, factor, nullptr, &error), error);
}

// What the selection table calls the size: see select::Query::bytes.
std::size_t LaunchRun::plan_bytes() const {
  const std::size_t element = roda_dtype_size(head().dtype);
  const auto members = static_cast<std::size_t>(set_->size());
  std::size_t bytes = 0;
  switch (head().collective) {
    case RODA_ALLGATHER:
      for (const auto& t : launch_.tensors) {
        for (std::size_t m = 0; m < members; ++m) bytes += t->bytes(m);
      }
      return bytes;
    case RODA_ALLTOALL:
      for (std::size_t to = 0; to < members; ++to) {
        std::size_t rows = 0;
        for (std::size_t from = 0; from < members; ++from) {
          rows += static_cast<std::size_t>(head().splits[from * members + to]);
        }
        bytes = std::max(bytes, rows * static_cast<std::size_t>(head().row_elements) * element);
      }
      return bytes;
    case RODA_BARRIER:
      return 0;
    default:
      for (const auto& t : launch_.tensors) bytes += t->bytes(0);
      return bytes;
  }
}

Status LaunchRun::allocate_result(Operation* op, std::size_t bytes) {
  if (op->output != nullptr) return {};
  op->result = OutputRef(OutputBlock::allocate(bytes));
  if (!op->result) {
    return Status::no_memory("No memory for the " + std::to_string(bytes) + "-byte output of " +
                             std::string(roda_collective_name(head().collective)) + " '" + head().name + "'");
  }
  op->output = op->result.get()->data();
  return {};
}

Status LaunchRun::start(Planner* planner, Contexts* contexts, bool* started) {
  *started = true;
  if (set_->size() == 1) {
    local_ = true;
    return run_locally();
  }
  const Shape& shape = set_->options().shape;
  PlanQuery query;
  query.collective = head().collective;
  query.dtype = head().dtype;
  query.op = head().op == RODA_AVERAGE ? RODA_SUM : head().op;
  query.bytes = plan_bytes();
  query.lie_on(shape);
  const Plan* plan = nullptr;
  RODA_RETURN_IF_ERROR(planner->plan(query, &plan));
  int root = 0;
  if (head().collective == RODA_BROADCAST) {
    const auto& ranks = set_->options().ranks;
    root = static_cast<int>(std::lower_bound(ranks.begin(), ranks.end(), head().root) - ranks.begin());
  }
  RODA_RETURN_IF_ERROR(find_pools(*plan, root, contexts, started));
  if (!*started) return {};

  execute::StageArgs args;
  args.collective = head().collective;
  args.dtype = head().dtype;
  args.op = query.op;
  args.launch = launch_.sequence;
  args.generation = set_->options().generation;
  args.slot = slot_;
  if (!plan->is_composed() && group()->slots() != 0) args.slot %= group()->slots();
  args.root = root;
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

// The groups that the plan's stages run over. All are asked for before one is waited for: they form side by side.
Status LaunchRun::find_pools(const Plan& plan, int root, Contexts* contexts, bool* ready) {
  *ready = true;
  SetRuntime::Route& route = set_->route(plan.text, root);
  if (route.groups.empty()) {
    route.groups.resize(1);
    const Shape& shape = set_->options().shape;
    const auto& composition = plan.composition;
    if (plan.is_composed()) {
      route.groups = execute::groups_of(composition, shape.grid(composition.name).grid, shape.self(), root);
    }
  }
  pools_ = route.pools;
  if (!pools_.empty()) return {};
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    execute::StagePool* pool = nullptr;
    if (!plan.is_composed() || !route.groups[i].empty()) {
      execute::TransportContext* context = nullptr;
      RODA_RETURN_IF_ERROR(contexts->get(plan.stages[i].transport, &context));
      bool formed = false;
      RODA_RETURN_IF_ERROR(set_->stages(*context, route.groups[i], &pool, &formed));
      *ready = *ready && formed;
    }
    pools_.push_back(pool);
  }
  if (*ready) route.pools = pools_;
  return {};
}

Status LaunchRun::acquire(const Plan& plan, int root) {
  needs_whole_group_ = false;
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    if (pools_[i] == nullptr) continue;
    const std::uint32_t slots = pools_[i]->group().slots();
    needs_whole_group_ =
        needs_whole_group_ || slots == 1 || (plan.is_composed() && plan.stages[i].algorithm == "native");
  }
  if (head().collective == RODA_ADASUM_ALLREDUCE) {
    return set_->composed(
        plan.text, 0, [&](std::unique_ptr<execute::Stage>* stage) { return make_adasum(plan, stage); }, &stage_);
  }
  if (!plan.is_composed()) {
    return pools_.front()->acquire(head().collective, plan.stages.front().algorithm, root, &stage_);
  }
  const auto compose = [&](std::unique_ptr<execute::Stage>* stage) {
    const Shape& shape = set_->options().shape;
    const plan::Plan& composition = plan.composition;
    const execute::Rendition rendition{shape.self(), root, pools_, set_->options().execute.level_bytes};
    *stage = std::make_unique<execute::ComposedStage>(
        plan.text, execute::make_composition(composition, shape.grid(composition.name).grid, rendition),
        kLaunchesInFlight);
    return Status();
  };
  return set_->composed(plan.text, root, compose, &stage_);
}

// Places in the tree go by hosts, so that the ranks of one host share its first levels.
Status LaunchRun::make_adasum(const Plan& plan, std::unique_ptr<execute::Stage>* stage) const {
  const Shape& shape = set_->options().shape;
  execute::AdasumStage::Arrangement arrangement;
  for (const auto& host : shape.table()) {
    arrangement.rank_at.insert(arrangement.rank_at.end(), host.begin(), host.end());
  }
  if (plan.stages.front().algorithm == kVectorHalvingAcross) {
    arrangement.averaged = static_cast<int>(shape.table().front().size());
  }
  *stage = std::make_unique<execute::AdasumStage>(pools_.front()->group(), set_->options().execute, arrangement);
  return {};
}

Status LaunchRun::prepare(execute::StageArgs* args) {
  if (fused() && !reduces_all()) return prepare_bucket(args);
  switch (head().collective) {
    case RODA_ALLREDUCE:
    case RODA_ADASUM_ALLREDUCE:
      return prepare_allreduce(args);
    case RODA_ALLGATHER:
      return prepare_allgather(args);
    case RODA_ALLTOALL:
      return prepare_alltoall(args);
    case RODA_REDUCESCATTER:
      return prepare_reducescatter(args);
    case RODA_BROADCAST:
      return prepare_broadcast(args);
    case RODA_BARRIER:
      return {};
    default:
      return Status::unsupported(std::string(roda_collective_name(head().collective)) + " has no plan");
  }
}

// One tensor or many, each with its factors. A stage that takes buckets works through them where they lie; for the
// others one tensor is reduced in its output, and several are packed.
Status LaunchRun::prepare_allreduce(execute::StageArgs* args) {
  lay_out_bucket();
  args->count = bucket_.elements();
  args->tensor_begins = begins_.data();
  args->tensors = begins_.size();
  bucket_given_ = stage_->takes_buckets();
  if (bucket_given_) {
    args->bucket = &bucket_;
    args->prescale = prescale();
    args->postscale = postscale();
    return {};
  }
  Operation* op = operations_.front();
  if (!fused() && op != nullptr) {
    args->count = static_cast<std::size_t>(head().elements(0));
    args->input = op->input;
    args->output = op->output;
    if (prescale() == 1.0) return {};
    RODA_RETURN_IF_ERROR(copy(op->output, op->input, op->bytes()));
    args->input = op->output;
    return scale(op->output, args->count, prescale());
  }
  RODA_RETURN_IF_ERROR(fused_.ensure(group(), bucket_.bytes()));
  RODA_RETURN_IF_ERROR(bucket_.pack(fused_.data(), prescale(), nullptr));
  args->input = args->output = fused_.data();
  if (fused_.is_transports()) args->input_memory = args->output_memory = fused_.memory();
  return {};
}

void LaunchRun::lay_out_bucket() {
  members_.clear();
  begins_.clear();
  std::size_t begin = 0;
  for (std::size_t i = 0; i < launch_.tensors.size(); ++i) {
    Operation* op = operations_[i];
    execute::BucketTensor tensor;
    tensor.count = static_cast<std::size_t>(launch_.tensors[i]->elements(0));
    if (op != nullptr) {  // null: this rank joined, and gives zeros
      tensor.input = op->input;
      tensor.output = op->output;
      op->result_shape = op->request.shape;
    }
    members_.push_back(tensor);
    begins_.push_back(begin);
    begin += execute::aligned_elements(tensor.count, head().dtype);
  }
  bucket_.lay_out_allreduce(members_.data(), members_.size(), head().dtype);
}

Status LaunchRun::prepare_broadcast(execute::StageArgs* args) {
  Operation* op = operations_.front();
  args->input = op->input;
  args->output = op->output;
  args->count = static_cast<std::size_t>(head().elements(0));
  op->result_shape = op->request.shape;
  return {};
}

Status LaunchRun::prepare_allgather(execute::StageArgs* args) {
  Operation* op = operations_.front();
  recv_counts_.clear();
  std::size_t total = 0;
  std::int64_t rows = 0;
  for (std::size_t m = 0; m < head().rows.size(); ++m) {
    recv_counts_.push_back(static_cast<std::size_t>(head().elements(m)));
    total += recv_counts_.back();
    rows += head().rows[m];
  }
  RODA_RETURN_IF_ERROR(allocate_result(op, total * roda_dtype_size(head().dtype)));
  op->result_shape = op->request.shape;
  op->result_shape[0] = rows;
  args->input = op->input;
  args->output = op->output;
  args->recv_counts = recv_counts_.data();
  return {};
}

Status LaunchRun::prepare_alltoall(execute::StageArgs* args) {
  Operation* op = operations_.front();
  const auto members = static_cast<std::size_t>(set_->size());
  const auto self = static_cast<std::size_t>(set_->options().rank);
  const auto row = static_cast<std::size_t>(head().row_elements);
  send_counts_.clear();
  recv_counts_.clear();
  op->received_splits.clear();
  std::int64_t rows = 0;
  for (std::size_t m = 0; m < members; ++m) {
    const std::int32_t from_peer = head().splits[m * members + self];
    send_counts_.push_back(static_cast<std::size_t>(head().splits[self * members + m]) * row);
    recv_counts_.push_back(static_cast<std::size_t>(from_peer) * row);
    op->received_splits.push_back(from_peer);
    rows += from_peer;
  }
  const std::int32_t largest = *std::max_element(head().splits.begin(), head().splits.end());
  RODA_RETURN_IF_ERROR(allocate_result(op, static_cast<std::size_t>(rows) * row * roda_dtype_size(head().dtype)));
  op->result_shape = op->request.shape;
  op->result_shape[0] = rows;
  args->input = op->input;
  args->output = op->output;
  args->send_counts = send_counts_.data();
  args->recv_counts = recv_counts_.data();
  args->max_count = static_cast<std::size_t>(largest) * row;
  all_counts_.clear();
  if (pools_.size() > 1) {
    for (const std::int32_t rows_between : head().splits) {
      all_counts_.push_back(static_cast<std::size_t>(rows_between) * row);
    }
    args->all_counts = all_counts_.data();
  }
  return {};
}

Status LaunchRun::prepare_reducescatter(execute::StageArgs* args) {
  Operation* op = operations_.front();
  recv_counts_.clear();
  for (int m = 0; m < set_->size(); ++m) {
    recv_counts_.push_back(
        static_cast<std::size_t>(reducescatter_rows(head().rows[0], set_->size(), m) * head().row_elements));
  }
  const auto self = static_cast<std::size_t>(set_->options().rank);
  RODA_RETURN_IF_ERROR(allocate_result(op, recv_counts_[self] * roda_dtype_size(head().dtype)));
  op->result_shape = op->request.shape;
  op->result_shape[0] = reducescatter_rows(head().rows[0], set_->size(), set_->options().rank);
  args->count = static_cast<std::size_t>(head().elements(0));
  args->recv_counts = recv_counts_.data();
  args->input = op->input;
  args->output = op->output;
  if (prescale() == 1.0 || op->bytes() == 0) return {};
  RODA_RETURN_IF_ERROR(fused_.ensure(group(), op->bytes()));
  std::memcpy(fused_.data(), op->input, op->bytes());
  args->input = fused_.data();
  if (fused_.is_transports()) args->input_memory = fused_.memory();
  return scale(fused_.data(), args->count, prescale());
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
  if (fused() || op == nullptr) return bucket_.unpack(fused_.data(), postscale(), nullptr);
  return scale(op->output, static_cast<std::size_t>(head().elements(0)), postscale());
}

Status LaunchRun::advance(bool* done) {
  *done = true;
  if (local_) return {};
  RODA_RETURN_IF_ERROR(stage_->test(done));
  return *done ? finish_outputs() : Status();
}

void LaunchRun::abort(const Status& cause) {
  if (stage_ != nullptr) stage_->abort(cause);
}

bool LaunchRun::quiesced() {
  if (local_) return true;
  for (Operation* op : operations_) {
    if (op == nullptr) continue;
    for (execute::StagePool* pool : pools_) {
      if (pool == nullptr) continue;
      if (op->input != nullptr && !pool->group().quiesced(op->input, op->bytes())) return false;
      if (op->output != nullptr && !pool->group().quiesced(op->output, op->bytes())) return false;
    }
  }
  return true;
}

std::string LaunchRun::describe() const {
  std::string text = std::string(roda_collective_name(head().collective)) + " '" + head().name + "'";
  if (fused()) text += " and " + std::to_string(launch_.tensors.size() - 1) + " more";
  return stage_ == nullptr ? text + " (connecting)" : text + " (" + stage_->describe() + ")";
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
  local_ = false;
}

}  // namespace roda::engine
