// Payload: several small tensors of one allgather, reduce-scatter or broadcast in one buffer. (An allreduce's bucket
// may do without a buffer.)
#include "core/execute/schedule/layout.h"
#include "core/launch/payload.h"

namespace roda::engine {

execute::BucketTensor Payload::tensor_of(std::size_t index) const {
  execute::BucketTensor tensor;
  tensor.input = (*operations_)[index]->input;
  tensor.output = (*operations_)[index]->output;
  tensor.count = static_cast<std::size_t>(launch_->tensors[index]->elements(0));
  if (!counts_.empty()) tensor.counts = &counts_[index * static_cast<std::size_t>(size())];
  return tensor;
}

// Fills the tensor's counts per rank and its result's shape; returns the result's elements.
std::size_t Payload::shape_result(std::size_t index) {
  const negotiate::Agreed& tensor = *launch_->tensors[index];
  const int self = members_.rank;
  Operation* op = (*operations_)[index];
  op->result_shape = op->request.shape;
  std::int64_t rows = 0;
  for (int m = 0; m < size(); ++m) {
    const bool gathers = tensor.collective == RODA_ALLGATHER;
    const std::int64_t part =
        gathers ? tensor.rows[static_cast<std::size_t>(m)] : reducescatter_rows(tensor.rows[0], size(), m);
    if (gathers || m == self) rows += part;
    counts_.push_back(static_cast<std::size_t>(part * tensor.row_elements));
  }
  op->result_shape[0] = rows;
  return static_cast<std::size_t>(rows * tensor.row_elements);
}

Status Payload::prepare_bucket(execute::StageArgs* args) {
  counts_.clear();
  tensors_.clear();
  const std::size_t element = roda_dtype_size(head().dtype);
  if (head().collective != RODA_BROADCAST) {
    for (std::size_t i = 0; i < operations_->size(); ++i) {
      RODA_RETURN_IF_ERROR(allocate_result((*operations_)[i], shape_result(i) * element));
    }
  }
  for (std::size_t i = 0; i < operations_->size(); ++i) tensors_.push_back(tensor_of(i));
  if (head().collective == RODA_ALLGATHER) return pack_allgather(args);
  return head().collective == RODA_BROADCAST ? pack_broadcast(args) : pack_reducescatter(args);
}

// The buffer holds what all ranks give, and behind that this rank's part, from where it travels.
Status Payload::pack_allgather(execute::StageArgs* args) {
  const auto self = static_cast<std::size_t>(members_.rank);
  bucket_.lay_out_allgather(tensors_.data(), tensors_.size(), head().dtype, members_.rank, size());
  const std::size_t element = roda_dtype_size(head().dtype);
  const std::size_t own = execute::align_up(bucket_.bytes());
  RODA_RETURN_IF_ERROR(ensure_fused(own + bucket_.recv_counts()[self] * element));
  char* buffer = static_cast<char*>(fused_.data());
  RODA_RETURN_IF_ERROR(bucket_.pack(buffer, 1.0, queue_.stream));
  RODA_RETURN_IF_ERROR(
      copy(buffer + own, buffer + bucket_.own_begin() * element, bucket_.recv_counts()[self] * element));
  args->input = buffer + own;
  args->output = unpacked_from_ = buffer;
  args->recv_counts = bucket_.recv_counts();
  if (fused_.is_transports()) args->input_memory = args->output_memory = fused_.memory();
  return {};
}

// The buffer holds this rank's input, and behind that its part of the result.
Status Payload::pack_reducescatter(execute::StageArgs* args) {
  const auto self = static_cast<std::size_t>(members_.rank);
  bucket_.lay_out_reduce_scatter(tensors_.data(), tensors_.size(), head().dtype, members_.rank, size());
  const std::size_t result = execute::align_up(bucket_.bytes());
  const std::size_t element = roda_dtype_size(head().dtype);
  RODA_RETURN_IF_ERROR(ensure_fused(result + bucket_.recv_counts()[self] * element));
  char* buffer = static_cast<char*>(fused_.data());
  RODA_RETURN_IF_ERROR(bucket_.pack(buffer, prescale(), queue_.stream));
  args->input = buffer;
  args->output = unpacked_from_ = buffer + result;
  args->count = bucket_.elements();
  args->recv_counts = bucket_.recv_counts();
  if (fused_.is_transports()) args->input_memory = args->output_memory = fused_.memory();
  return {};
}

// The root's tensors back to back, as an allreduce's would lie.
Status Payload::pack_broadcast(execute::StageArgs* args) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].input == nullptr) tensors_[i].input = tensors_[i].output;
    (*operations_)[i]->result_shape = (*operations_)[i]->request.shape;
  }
  bucket_.lay_out_allreduce(tensors_.data(), tensors_.size(), head().dtype);
  RODA_RETURN_IF_ERROR(ensure_fused(bucket_.bytes()));
  if (is_root()) RODA_RETURN_IF_ERROR(bucket_.pack(fused_.data(), 1.0, queue_.stream));
  args->output = unpacked_from_ = fused_.data();
  args->count = bucket_.elements();
  if (fused_.is_transports()) args->output_memory = fused_.memory();
  return {};
}

Status Payload::unpack_bucket() {
  return bucket_.unpack(unpacked_from_, head().collective == RODA_REDUCESCATTER ? postscale() : 1.0, queue_.stream);
}

}  // namespace roda::engine
