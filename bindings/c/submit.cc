// roda_submit: from the caller's struct to the engine's operation, with the checks that need no other rank.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <string>

#include "algorithms/schedule/format.h"
#include "bindings/c/process.h"
#include "bindings/c/roda.h"

namespace roda {
namespace {

using engine::Engine;
using engine::Operation;

using negotiate::kMostDimensions;
using negotiate::kMostNameBytes;

const char* op_title(int collective) { return roda_collective_of(collective)->title; }

bool is(const roda_op& op, std::uint32_t traits) { return roda_collective_is(op.collective, traits) != 0; }
bool is_for_root(const roda_op& op) { return is(op, RODA_COMBINES | RODA_ROOTED); }
bool has_tensor(const roda_op& op) { return roda_collective_of(op.collective)->input != RODA_NOTHING; }

Status check_set(const Engine& engine, const roda_op& op, int* size, int* position) {
  if (!engine.find_member(op.process_set, engine.rank(), size, position)) {
    return Status::invalid(std::string(op_title(op.collective)) +
                           ": Process set provided does not exist, or has not been registered (id " +
                           std::to_string(op.process_set) + ").");
  }
  if (*position < 0) {
    return Status::invalid(std::string(op_title(op.collective)) + ": Rank " + std::to_string(engine.rank()) +
                           " is not a member of the provided process set.");
  }
  return {};
}

Status check_splits(const roda_op& op, int size, Operation* out) {
  const std::int64_t rows = op.ndim > 0 ? op.shape[0] : 0;
  auto& splits = out->request.splits;
  if (op.splits == nullptr) {
    if (rows % size != 0) {
      return Status::invalid("splits not provided, but first dimension of tensor '" + out->request.name + "' (" +
                             std::to_string(rows) + ") is not an even multiple of the number of workers (" +
                             std::to_string(size) + ").");
    }
    splits.assign(static_cast<std::size_t>(size), static_cast<std::int32_t>(rows / size));
    return {};
  }
  if (op.num_splits != size) {
    return Status::invalid("Number of entries in splits does not equal number of workers: " +
                           std::to_string(op.num_splits) + " entries for " + std::to_string(size) + " workers.");
  }
  splits.assign(op.splits, op.splits + op.num_splits);
  if (const auto negative = std::find_if(splits.begin(), splits.end(), [](int s) { return s < 0; });
      negative != splits.end()) {
    return Status::invalid("splits must not be negative, but one entry is " + std::to_string(*negative) + ".");
  }
  const std::int64_t sum = std::accumulate(splits.begin(), splits.end(), std::int64_t{0});
  if (sum > rows) {
    return Status::invalid("Sum of splits entries is greater than the first dimension of tensor: " +
                           std::to_string(sum) + " > " + std::to_string(rows) + ".");
  }
  return {};
}

Status check_reduction(const roda_op& op) {
  if (!is(op, RODA_COMBINES)) return {};
  if (op.op < 0 || op.op >= RODA_REDUCE_OP_COUNT) {
    return Status::invalid("unknown reduce op " + std::to_string(op.op));
  }
  if (is_for_root(op) && op.op == RODA_ADASUM) {
    return Status::invalid(std::string(op_title(op.collective)) + " has no Adasum: use an allreduce.");
  }
  if (is(op, RODA_SUMS_ONLY) && op.op != RODA_SUM && op.op != RODA_AVERAGE) {
    return Status::aborted(std::string(op_title(op.collective)) + " currently only supports AVERAGE and SUM.");
  }
  return {};
}

// Biases and norms, which training is sensitive to, hold next to none of the bytes.
bool is_small(const roda_op& op) {
  constexpr std::int64_t kLeastFormatted = 1024;
  const auto product = std::accumulate(op.shape, op.shape + op.ndim, std::int64_t{1}, std::multiplies());
  return op.collective == RODA_ALLREDUCE && product < kLeastFormatted;
}

// The format that the operation's messages may have: others fuse, and are worked on, as if nothing had been asked.
std::int32_t wire_format_of(const roda_op& op) {
  if (is_small(op)) return RODA_WIRE_NONE;
  const bool sums = op.op == RODA_SUM || op.op == RODA_AVERAGE || !is(op, RODA_COMBINES);
  const bool can_have = schedule::can_have_format(static_cast<schedule::Collective>(op.collective)) &&
                        op.dtype == RODA_FLOAT32 && op.device < 0 && sums;
  return can_have ? op.wire_format : int32_t{RODA_WIRE_NONE};
}

Status check_basics(const roda_op& op) {
  if (op.struct_size != sizeof op) {
    return Status::invalid("roda_op.struct_size is " + std::to_string(op.struct_size) + ", and this library's is " +
                           std::to_string(sizeof op) +
                           ": set it to sizeof(roda_op), and compile with this version's roda.h.");
  }
  const auto title = [&op] { return std::string(op_title(op.collective)); };
  if (!is(op, RODA_SUBMITTED)) return Status::invalid("unknown collective " + std::to_string(op.collective));
  if (!has_tensor(op)) return {};
  if (op.name == nullptr || op.name[0] == '\0') return Status::invalid(title() + ": the operation has no name.");
  if (const std::size_t bytes = std::strlen(op.name); bytes > kMostNameBytes) {
    return Status::invalid(title() + " '" + std::string(op.name, 40) + "...': its name has " + std::to_string(bytes) +
                           " bytes; at most " + std::to_string(kMostNameBytes) + " are allowed.");
  }
  if (roda_dtype_size(op.dtype) == 0) return Status::invalid(title() + ": unknown dtype " + std::to_string(op.dtype));
  if (op.wire_format < 0 || op.wire_format >= RODA_WIRE_FORMAT_COUNT) {
    return Status::invalid(title() + " '" + op.name + "': unknown wire format " + std::to_string(op.wire_format));
  }
  if (op.ndim < 0 || op.ndim > kMostDimensions || (op.ndim > 0 && op.shape == nullptr)) {
    return Status::invalid(title() + " '" + op.name + "': a shape of 0 to " + std::to_string(kMostDimensions) +
                           " dimensions is needed.");
  }
  std::int64_t elements = 1;  // an empty dimension counted as one: the others' product is a row's length
  bool is_empty = false;
  for (int d = 0; d < op.ndim; ++d) {
    is_empty = is_empty || op.shape[d] == 0;
    if (op.shape[d] < 0 || __builtin_mul_overflow(elements, std::max<std::int64_t>(op.shape[d], 1), &elements)) {
      return Status::invalid(title() + " '" + op.name + "': a negative or too large dimension.");
    }
  }
  if (elements > PTRDIFF_MAX / static_cast<std::int64_t>(roda_dtype_size(op.dtype))) {
    return Status::invalid(title() + " '" + op.name + "': " + std::to_string(elements) + " elements of " +
                           roda_dtype_name(op.dtype) + " are more than memory can hold.");
  }
  const bool needs_output = roda_collective_of(op.collective)->output == RODA_WHOLE && !is_for_root(op);
  if (!is_empty &&
      ((op.input == nullptr && op.collective != RODA_BROADCAST) || (needs_output && op.output == nullptr))) {
    return Status::invalid(title() + " '" + op.name + "': a buffer is missing.");
  }
  return {};
}

// A format whose error no plan between hosts could keep within the bound is refused before the others wait for it.
Status check_bound(const Engine& engine, const roda_op& op, std::int32_t wire_format) {
  const std::optional<double>& bound = engine.knobs().wire_bound;
  if (wire_format == RODA_WIRE_NONE || !bound.has_value() || engine.topology().hosts.size() < 2) return {};
  const int least = schedule::fewest_roundings(static_cast<schedule::Collective>(op.collective));
  const std::string reason = schedule::beyond_bound(*bound, wire_format, least);
  if (reason.empty()) return {};
  return Status::invalid(std::string(op_title(op.collective)) + " '" + op.name + "': " + reason + ".");
}

// Something here can work where the tensor lies.
Status check_device(const Engine& engine, const roda_op& op) {
  const roda_device* device = engine.device();
  if (op.device < 0 || (device != nullptr && device->event_record != nullptr)) return {};
  return Status::unavailable(std::string(op_title(op.collective)) + " '" + op.name +
                             "': it lies on a GPU, but no plugin for GPUs' memory is usable here; `roda-info` says "
                             "why. Copy the tensor to the host, or install what is missing.");
}

// The tensors lie where the caller says. After a look at their streams: a GPU that has failed knows no memory either.
Status check_places(const Engine& engine, const roda_op* ops, std::span<const Operation> operations) {
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& op = operations[i];
    const std::int32_t named = op.request.device;
    const bool has_tensor = named >= 0 && engine.device() != nullptr && op.request.elements() != 0;
    if (!has_tensor || engine.device()->device_of == nullptr) continue;
    const void* seen = nullptr;
    for (const void* address : {op.input, static_cast<const void*>(op.output)}) {
      const bool is_known = address == nullptr || address == seen;
      seen = address;
      const std::int32_t lies_on = is_known ? named : engine.device()->device_of(address);
      if (lies_on == named) continue;
      return Status::invalid(std::string(op_title(ops[i].collective)) + " '" + op.request.name +
                             "': the caller says that it lies on GPU " + std::to_string(named) + ", but it lies " +
                             (lies_on < 0 ? "in host memory." : "on GPU " + std::to_string(lies_on) + "."));
    }
  }
  return {};
}

// The point of its stream at which a tensor has its value may be marked later than now, for several at once.
bool may_wait(const Engine& engine, const roda_op& op) {
  return (op.flags & RODA_OP_IN_STREAM_ORDER) != 0 && (op.flags & RODA_OP_WILL_WAIT) == 0 &&
         reinterpret_cast<std::uintptr_t>(op.stream) != execute::kPerThreadStream &&
         engine.device()->stream_check != nullptr;
}

// When the inputs are complete, as their producers' streams tell. One point for neighbours of one stream.
Status note_producers(Engine& engine, const roda_op* ops, std::span<Operation> operations) {
  void* last = nullptr;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const roda_op& op = ops[i];
    if (op.device < 0 || op.stream == nullptr || !has_tensor(op)) continue;
    Operation& operation = operations[i];
    if (i > 0 && op.stream == last) operation.ready = operations[i - 1].ready;
    last = op.stream;
    if (operation.ready != nullptr) continue;
    const bool waits = operations.size() == 1 && may_wait(engine, op);
    Status s;
    if (waits) s = execute::invoke(engine.device()->stream_check, op.device, op.stream);
    if (s.ok()) {
      s = engine.producers().add(engine::TensorKind::of(operation.request), {engine.device(), op.device, op.stream},
                                 operation.bytes(), waits, &operation.ready);
    }
    if (!s.ok())
      return {s.code(), std::string(op_title(op.collective)) + " '" + op.name + "': its stream: " + s.message()};
  }
  return {};
}

Status convert(const Engine& engine, const roda_op& op, Operation* out) {
  RODA_RETURN_IF_ERROR(check_basics(op));
  int size = 0;
  int position = -1;
  RODA_RETURN_IF_ERROR(check_set(engine, op, &size, &position));
  RODA_RETURN_IF_ERROR(check_reduction(op));
  negotiate::Request& r = out->request;
  if (!has_tensor(op)) r = negotiate::Request();
  r.set = op.process_set;
  r.collective = op.collective;
  out->in_turn = (op.flags & RODA_OP_IN_TURN) != 0;
  if (!has_tensor(op)) {
    r.name = op.collective == RODA_JOIN ? engine::kJoinName : engine::kBarrierName;
    if (op.collective == RODA_JOIN) r.device = op.device;
    return {};
  }
  r.name = op.name;
  r.dtype = op.dtype;
  r.op = op.op;
  if (op.collective == RODA_ALLREDUCE && op.op == RODA_ADASUM) r.collective = RODA_ADASUM_ALLREDUCE;
  r.root = is(op, RODA_ROOTED) ? op.root : 0;
  r.device = op.device;
  r.wire_format = wire_format_of(op);
  RODA_RETURN_IF_ERROR(check_bound(engine, op, r.wire_format));
  r.prescale = op.prescale;
  r.postscale = op.postscale;
  r.shape.assign(op.shape, op.shape + op.ndim);
  out->input = op.input;
  out->output = is_for_root(op) && op.root != engine.rank() ? nullptr : op.output;
  if (op.device < 0 && out->output != op.input) execute::prefer_large_pages(out->output, out->bytes());
  out->allocate = op.allocate;
  out->allocate_context = op.allocate_context;
  out->in_stream_order = (op.flags & RODA_OP_IN_STREAM_ORDER) != 0;
  RODA_RETURN_IF_ERROR(check_device(engine, op));
  if (is(op, RODA_ROOTED)) {
    int root_position = -1;
    engine.find_member(op.process_set, op.root, &size, &root_position);
    if (root_position < 0) {
      return Status::invalid(std::string(roda_collective_of(op.collective)->users) + " received invalid root rank " +
                             std::to_string(op.root) + " for provided process set");
    }
  }
  return op.collective == RODA_ALLTOALL ? check_splits(op, size, out) : Status();
}

// The tensors that one call submits wait for one another (see core/negotiate/groups.h).
void name_group(std::span<Operation> operations) {
  const auto takes_part = [&](const Operation& op) {
    const negotiate::Request& r = op.request;
    const bool moves_data = roda_collective_of(r.collective)->input != RODA_NOTHING;
    return r.set == operations.front().request.set && moves_data;
  };
  if (operations.size() < 2 || !std::ranges::all_of(operations, takes_part)) return;
  std::vector<std::string_view> names;
  for (const Operation& op : operations) names.push_back(op.request.name);
  const negotiate::Group group{negotiate::group_id(names), static_cast<std::int32_t>(names.size())};
  for (Operation& op : operations) op.request.group = group;
}

thread_local bool thread_has_submitted = false;

}  // namespace
}  // namespace roda

int32_t roda_thread_has_submitted(void) { return roda::thread_has_submitted ? 1 : 0; }

int32_t roda_submit(const roda_op* ops, int32_t count, roda_handle* handle, roda_error* error) {
  using namespace roda;
  *handle = 0;
  const EngineRef engine = Process::get().running();
  if (Status s = engine.check(); !s.ok()) return s.to(error);
  if (count < 1) return Status::invalid("a group needs at least one operation").to(error);
  engine::HandleTable& handles = Process::get().handles();
  engine::HandleState* state = handles.create(static_cast<std::size_t>(count), handle);
  Status status;
  for (int32_t i = 0; i < count && status.ok(); ++i) {
    status = convert(*engine, ops[i], &state->operations[static_cast<std::size_t>(i)]);
  }
  if (status.ok()) name_group(state->operations);
  if (status.ok()) status = note_producers(*engine, ops, state->operations);
  if (status.ok()) status = check_places(*engine, ops, state->operations);
  if (status.ok()) status = engine->submit(state, (ops[0].flags & RODA_OP_WILL_WAIT) != 0);
  thread_has_submitted = true;
  if (status.ok()) return RODA_OK;
  handles.release(*handle);
  *handle = 0;
  return status.to(error);
}
