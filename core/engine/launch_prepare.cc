// LaunchRun: what a launch's stage works on.
#include <algorithm>

#include "core/engine/launch_run.h"

namespace roda::engine {

Status LaunchRun::allocate_result(Operation* op, std::size_t bytes) {
  if (op->output != nullptr) return {};
  OutputBlock* block = nullptr;
  if (const Status s = OutputBlock::allocate(queue_, bytes, &block); !s.ok()) {
    return {s.code(), "No memory for the " + std::to_string(bytes) + "-byte output of " +
                          std::string(roda_collective_name(head().collective)) + " '" + head().name +
                          "': " + s.message()};
  }
  op->result = OutputRef(block);
  op->output = op->result.get()->data();
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
  bucket_given_ = queue_.is_host() && stage_->takes_buckets();
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
  if (!fused()) return prepare_zeros(args);
  RODA_RETURN_IF_ERROR(ensure_fused(bucket_.bytes()));
  RODA_RETURN_IF_ERROR(bucket_.pack(fused_.data(), prescale(), queue_.stream));
  args->input = args->output = fused_.data();
  if (fused_.is_transports()) args->input_memory = args->output_memory = fused_.memory();
  return {};
}

// This rank has joined, and the others work on a tensor of their program's: no buffer that is registered may stand in
// for it here, since what is registered must be so on every rank.
Status LaunchRun::prepare_zeros(execute::StageArgs* args) {
  FusionBuffer& zeros = queue_.is_host() ? fused_ : zeros_;
  RODA_RETURN_IF_ERROR(zeros.ensure(queue_, group(), bucket_.bytes()));
  RODA_RETURN_IF_ERROR(bucket_.pack(zeros.data(), prescale(), queue_.stream));
  args->input = args->output = zeros.data();
  if (zeros.is_transports()) args->input_memory = args->output_memory = zeros.memory();
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
  const bool reads_gaps = queue_.is_host() || collective_ == RODA_ADASUM_ALLREDUCE;
  bucket_.lay_out_allreduce(members_.data(), members_.size(), head().dtype, reads_gaps);
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
  RODA_RETURN_IF_ERROR(ensure_fused(op->bytes()));
  RODA_RETURN_IF_ERROR(copy(fused_.data(), op->input, op->bytes()));
  args->input = fused_.data();
  if (fused_.is_transports()) args->input_memory = fused_.memory();
  return scale(fused_.data(), args->count, prescale());
}

}  // namespace roda::engine
