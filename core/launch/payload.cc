#include "core/launch/payload.h"

#include <algorithm>
#include <bit>

#include "core/launch/average.h"
#include "plugins/base/format.h"
#include "plugins/base/invariant.h"

namespace roda::engine {
namespace {

// Averages of whole numbers, before the sum and after it: in host memory, and on a device by its own table.
Status widen(const execute::DeviceQueue& queue, void* sums, const void* values, std::size_t count, int dtype,
             int members) {
  if (queue.is_host()) {
    spread(sums, values, count, dtype, members);
    return {};
  }
  if (queue.device->widen == nullptr || queue.device->average == nullptr) {
    return Status::unsupported(std::string(queue.device->name) + ": no averages of whole numbers");
  }
  return execute::invoke(queue.device->widen, sums, values, count, dtype, members, queue.stream);
}

Status divide(const execute::DeviceQueue& queue, void* values, const void* sums, std::size_t count, int dtype,
              int members, double postscale) {
  if (!queue.is_host()) {
    return execute::invoke(queue.device->average, values, sums, count, dtype, members, postscale, queue.stream);
  }
  average(values, sums, count, dtype, members, postscale);
  return {};
}

}  // namespace

std::int64_t reducescatter_rows(std::int64_t rows, int size, int rank) {
  return rows / size + (rank < rows % size ? 1 : 0);
}

void Payload::begin(const negotiate::Launch& launch, std::vector<Operation*>* operations, const Membership& members,
                    const execute::DeviceQueue& queue) {
  launch_ = &launch;
  operations_ = operations;
  members_ = members;
  queue_ = queue;
  means_ = {};
  bucket_.use(queue);
}

int Payload::divisor() const {
  const bool is_average = work_.op == RODA_AVERAGE && !work_.stage_averages;
  return is_average ? size() : work_.averaged;
}

double Payload::prescale() const { return head().prescale * factor_before(head().dtype, divisor()); }

double Payload::postscale() const {
  if (work_.is_spread) return 1.0;
  return head().postscale / factor_before(head().dtype, divisor()) / divisor();
}

Status Payload::allocate_result(Operation* op, std::size_t bytes) {
  if (op->output != nullptr) return {};
  RODA_RETURN_IF_ERROR(find_result(op, bytes));
  if (queue_.is_host()) execute::prefer_large_pages(op->output, bytes);
  return {};
}

Status Payload::find_result(Operation* op, std::size_t bytes) {
  if (op->allocate != nullptr) {
    const auto ndim = static_cast<std::int32_t>(op->result_shape.size());
    op->output = op->allocate(op->allocate_context, op->result_shape.data(), ndim, bytes);
    if (op->output != nullptr || bytes == 0) return {};
    return Status::no_memory(roda::format("The caller has no memory for the {}-byte output of {} '{}'.", bytes,
                                          roda_collective_name(head().collective), head().name));
  }
  // Networks can't reach memory of a stream's order.
  const bool stays_here = means_.buffers != nullptr || size() == 1;
  OutputBlock* block = nullptr;
  if (const Status s = OutputBlock::allocate(queue_, bytes, stays_here && op->in_stream_order, &block); !s.ok()) {
    return {s.code(), roda::format("No memory for the {}-byte output of {} '{}': {}", bytes,
                                   roda_collective_name(head().collective), head().name, s.message())};
  }
  op->result = OutputRef(block);
  op->output = op->result.get()->data();
  return {};
}

// Powers of two, so that launches of many sizes are served by few allocations.
Status Payload::reserve(execute::WorkMemory* buffer, std::size_t bytes, execute::TransportGroup* lender) const {
  const std::size_t length = std::bit_ceil(std::max(bytes, std::size_t{64} << 10));
  const Status status = buffer->reserve(queue_.is_host() ? nullptr : &queue_, length, lender);
  if (status.code() != RODA_ERR_NO_MEMORY) return status;
  return Status::no_memory("No memory for a fusion buffer: " + status.message() + "; lower HOROVOD_FUSION_THRESHOLD");
}

// Groups that work on a device's memory may register the buffer: every rank of a group does so for the same launches.
Status Payload::reserve_fused(std::size_t bytes) {
  // On a device a group lends what its own library works on, and no other.
  const bool may_lend = queue_.is_host() || means_.buffers != nullptr;
  RODA_RETURN_IF_ERROR(reserve(&fused(), bytes, may_lend ? means_.group : nullptr));
  for (execute::TransportGroup* group : means_.on_device) fused().register_with(*group);
  return {};
}

Status Payload::prepare(const Work& work, const Means& means, execute::StageArgs* args) {
  work_ = work;
  means_ = means;
  RODA_RETURN_IF_ERROR(prepare_values(args));
  return work_.is_spread ? spread_out(args) : Status();
}

Status Payload::prepare_values(execute::StageArgs* args) {
  if (reduces_all()) return prepare_allreduce(args);
  if (head().collective == RODA_BARRIER) return {};
  if (is_fused()) return prepare_bucket(args);
  Operation* op = operations_->front();
  RODA_RETURN_IF_ERROR(prepare_one(op, args));
  const bool is_for_others = head().collective == RODA_REDUCE && !is_root();
  args->input = op->input;
  args->output = is_for_others ? nullptr : op->output;
  return head().collective == RODA_REDUCESCATTER || head().collective == RODA_REDUCE ? scale_input(args) : Status();
}

// Counts, and the result where the caller has no place for it.
Status Payload::prepare_one(Operation* op, execute::StageArgs* args) {
  op->result_shape = op->request.shape;
  switch (head().collective) {
    case RODA_ALLTOALL:
      return prepare_alltoall(op, args);
    case RODA_REDUCESCATTER:
      args->count = count();
      [[fallthrough]];
    case RODA_ALLGATHER:
      counts_.clear();
      RODA_RETURN_IF_ERROR(allocate_result(op, shape_result(0) * element()));
      args->recv_counts = counts_.data();
      return {};
    case RODA_BROADCAST:
      args->count = count();
      return {};
    case RODA_REDUCE:
      args->count = count();
      return is_root() ? allocate_result(op, op->bytes()) : Status();
    default:
      return Status::unsupported(std::string(roda_collective_name(head().collective)) + " has no plan");
  }
}

// One tensor or many, each with its factors. A stage that takes buckets works through them where they lie; for the
// others one tensor is reduced in its output, and several are packed. A bucket of one sum would be the tensor itself.
Status Payload::prepare_allreduce(execute::StageArgs* args) {
  Operation* op = operations_->front();
  const bool is_one = op != nullptr && !is_fused();
  const bool is_sum = is_one && work_.collective == RODA_ALLREDUCE && prescale() == 1.0 && postscale() == 1.0;
  bucket_given_ = queue_.is_host() && means_.takes_buckets && !work_.is_spread && !is_sum;
  if (!is_sum) {
    lay_out_bucket();
    args->count = bucket_.elements();
    args->tensor_begins = begins_.data();
    args->tensors = begins_.size();
  }
  if (means_.wire != nullptr) list_wire_tensors(!is_sum, args);
  if (bucket_given_) {
    args->bucket = &bucket_;
    args->prescale = prescale();
    args->postscale = postscale();
    return {};
  }
  if (is_one) {
    op->result_shape = op->request.shape;
    args->count = count();
    args->input = op->input;
    args->output = op->output;
    if (prescale() == 1.0) return {};
    RODA_RETURN_IF_ERROR(copy(op->output, op->input, op->bytes()));
    args->input = op->output;
    return scale(op->output, args->count, prescale());
  }
  // Not fused, this rank has joined, and the others work on a tensor of their program's: no buffer that is registered
  // may stand in for it here, since what is registered must be so on every rank.
  execute::WorkMemory& buffer = is_fused() || queue_.is_host() ? fused() : zeros();
  RODA_RETURN_IF_ERROR(is_fused() ? reserve_fused(bucket_.bytes())
                                  : reserve(&buffer, bucket_.bytes(), queue_.is_host() ? means_.group : nullptr));
  RODA_RETURN_IF_ERROR(bucket_.pack(buffer.data(), prescale()));
  args->input = args->output = buffer.data();
  args->input_memory = args->output_memory = memory_of(buffer);
  return {};
}

void Payload::lay_out_bucket() {
  tensors_.clear();
  begins_.clear();
  std::size_t begin = 0;
  for (std::size_t i = 0; i < launch_->tensors.size(); ++i) {
    Operation* op = (*operations_)[i];
    execute::BucketTensor tensor;
    tensor.count = static_cast<std::size_t>(launch_->tensors[i]->elements(0));
    if (op != nullptr) {  // null: this rank joined, and gives zeros
      tensor.input = op->input;
      tensor.output = op->output;
      op->result_shape = op->request.shape;
    }
    tensors_.push_back(tensor);
    begins_.push_back(begin);
    begin += execute::aligned_elements(tensor.count, head().dtype, means_.grain);
  }
  const bool reads_gaps = queue_.is_host() || work_.collective == RODA_ADASUM_ALLREDUCE;
  bucket_.lay_out_allreduce(tensors_.data(), tensors_.size(), head().dtype, reads_gaps, means_.grain);
}

void Payload::list_wire_tensors(bool are_laid_out, execute::StageArgs* args) {
  wire_tensors_.clear();
  for (std::size_t i = 0; i < launch_->tensors.size(); ++i) {
    const negotiate::Agreed& tensor = *launch_->tensors[i];
    const auto elements = static_cast<std::size_t>(tensor.elements(0));
    execute::WireTensor& listed =
        wire_tensors_.emplace_back(means_.wire->next(tensor.name, elements, means_.feeds_back));
    if (are_laid_out) listed.begin = begins_[i];
  }
  args->wire.tensors = wire_tensors_;
}

Status Payload::prepare_alltoall(Operation* op, execute::StageArgs* args) {
  const auto members = static_cast<std::size_t>(size());
  const std::size_t self = this->self();
  const auto row = static_cast<std::size_t>(head().row_elements);
  RODA_INVARIANT(head().splits.size() == members * members, "each member has said what it sends to each");
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
  const auto [least, most] = std::ranges::minmax(head().splits);
  const std::int32_t largest = most;
  args->is_even = least == largest;
  op->result_shape[0] = rows;
  RODA_RETURN_IF_ERROR(allocate_result(op, static_cast<std::size_t>(rows) * row * element()));
  args->send_counts = send_counts_.data();
  args->recv_counts = recv_counts_.data();
  args->max_count = static_cast<std::size_t>(largest) * row;
  all_counts_.clear();
  if (means_.needs_all_counts) {
    for (const std::int32_t between : head().splits) all_counts_.push_back(static_cast<std::size_t>(between) * row);
    args->all_counts = all_counts_.data();
  }
  return {};
}

// Where the input must stay as it is: in the fusion buffer.
Status Payload::scale_input(execute::StageArgs* args) {
  const Operation* op = operations_->front();
  if (prescale() == 1.0 || op->bytes() == 0) return {};
  RODA_RETURN_IF_ERROR(reserve_fused(op->bytes()));
  RODA_RETURN_IF_ERROR(copy(fused().data(), op->input, op->bytes()));
  args->input = fused().data();
  args->input_memory = memory_of(fused());
  return scale(fused().data(), args->count, prescale());
}

// The stage works on sums of a wider type, which lie behind what is spread out. On a device nobody lends that memory,
// and none is told of it.
Status Payload::spread_out(execute::StageArgs* args) {
  const bool scatters = head().collective == RODA_REDUCESCATTER;
  const int dtype = sum_dtype(head().dtype, size());
  const std::size_t width = sum_width(head().dtype);
  const std::size_t bytes = execute::align_up(args->count * width * roda_dtype_size(dtype));
  averages_ = args->output;
  averaged_ = scatters ? args->recv_counts[self()] : args->count;
  // The buffer has one size on every rank, as registered buffers must.
  RODA_RETURN_IF_ERROR(reserve(&sums_, scatters ? 2 * bytes : bytes, queue_.is_host() ? means_.group : nullptr));
  RODA_RETURN_IF_ERROR(widen(queue_, sums_.data(), args->input, args->count, head().dtype, size()));
  args->input = sums_.data();
  if (averages_ != nullptr) args->output = sums_.data() + (scatters ? bytes : 0);
  args->input_memory = args->output_memory = memory_of(sums_);
  args->dtype = dtype;
  args->count *= width;
  if (scatters) {
    sum_counts_.assign(args->recv_counts, args->recv_counts + size());
    for (std::size_t& count : sum_counts_) count *= width;
    args->recv_counts = sum_counts_.data();
  }
  sums_at_ = args->output;
  return {};
}

Status Payload::finish() {
  if (work_.is_spread && averages_ != nullptr) {
    RODA_RETURN_IF_ERROR(divide(queue_, averages_, sums_at_, averaged_, head().dtype, size(), head().postscale));
  }
  if (is_fused() && !reduces_all()) {
    return bucket_.unpack(unpacked_from_, head().collective == RODA_REDUCESCATTER ? postscale() : 1.0);
  }
  Operation* op = operations_->front();
  if (head().collective == RODA_REDUCESCATTER) return scale(op->output, counts_[self()], postscale());
  if (head().collective == RODA_REDUCE && is_root()) return scale(op->output, count(), postscale());
  if (!reduces_all() || bucket_given_) return {};
  if (is_fused()) return bucket_.unpack(fused().data(), postscale());
  return op == nullptr ? Status() : scale(op->output, count(), postscale());
}

// A set of one: every collective is a copy and the factors.
Status Payload::run_locally(const Work& work) {
  work_ = work;
  for (Operation* op : *operations_) {
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
    if (roda_collective_is(work_.collective, RODA_COMBINES) == 0) continue;
    RODA_RETURN_IF_ERROR(scale(op->output, count, prescale()));
    RODA_RETURN_IF_ERROR(scale(op->output, count, postscale()));
  }
  return {};
}

// --- several small tensors of one allgather, reduce-scatter or broadcast in one buffer ------------------------------

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
  for (std::size_t i = 0; head().collective != RODA_BROADCAST && i < operations_->size(); ++i) {
    RODA_RETURN_IF_ERROR(allocate_result((*operations_)[i], shape_result(i) * element()));
  }
  for (std::size_t i = 0; i < operations_->size(); ++i) {
    const Operation& op = *(*operations_)[i];
    const auto elements = static_cast<std::size_t>(launch_->tensors[i]->elements(0));
    const std::size_t* counts = counts_.empty() ? nullptr : &counts_[i * static_cast<std::size_t>(size())];
    tensors_.push_back({op.input, op.output, elements, counts});
  }
  return head().collective == RODA_BROADCAST ? pack_broadcast(args) : pack_blocks(args);
}

// The buffer holds what all ranks give, of a reduce-scatter this rank's input, and behind that this rank's part.
Status Payload::pack_blocks(execute::StageArgs* args) {
  const bool gathers = head().collective == RODA_ALLGATHER;
  bucket_.lay_out_blocks(head().collective, tensors_.data(), tensors_.size(), head().dtype, members_.rank, size());
  const std::size_t own = execute::align_up(bucket_.bytes());
  const std::size_t own_bytes = bucket_.recv_counts()[self()] * element();
  // The buffer has one size on every rank, as registered buffers must.
  const std::size_t most = *std::max_element(bucket_.recv_counts(), bucket_.recv_counts() + size());
  RODA_RETURN_IF_ERROR(reserve_fused(own + most * element()));
  char* buffer = fused().data();
  RODA_RETURN_IF_ERROR(bucket_.pack(buffer, gathers ? 1.0 : prescale()));
  if (gathers) {
    RODA_RETURN_IF_ERROR(copy(buffer + own, buffer + bucket_.own_begin() * element(), own_bytes));
  } else {
    args->count = bucket_.elements();
  }
  args->input = gathers ? buffer + own : buffer;
  args->output = unpacked_from_ = gathers ? buffer : buffer + own;
  args->recv_counts = bucket_.recv_counts();
  args->input_memory = args->output_memory = memory_of(fused());
  return {};
}

// The root's tensors back to back, as an allreduce's would lie.
Status Payload::pack_broadcast(execute::StageArgs* args) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].input == nullptr) tensors_[i].input = tensors_[i].output;
    (*operations_)[i]->result_shape = (*operations_)[i]->request.shape;
  }
  bucket_.lay_out_allreduce(tensors_.data(), tensors_.size(), head().dtype);
  RODA_RETURN_IF_ERROR(reserve_fused(bucket_.bytes()));
  if (is_root()) RODA_RETURN_IF_ERROR(bucket_.pack(fused().data(), 1.0));
  args->output = unpacked_from_ = fused().data();
  args->count = bucket_.elements();
  args->output_memory = memory_of(fused());
  return {};
}

void Payload::used_until(const std::shared_ptr<execute::DeviceEvent>& event) {
  fused().used_until(event);
  zeros().used_until(event);
  sums_.used_until(event);
}

}  // namespace roda::engine
