#include "bindings/tensorflow/kernels.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/c/roda.h"

namespace roda::tf {

// One node of a graph, or all eager calls with the same attributes.
struct Kernel {
  int collective = 0;
  std::string name;
  std::int32_t reduce_op = RODA_SUM;
  std::int32_t root = 0;
  std::int32_t set = 0;
  float prescale = 1;
  float postscale = 1;
  std::int32_t wire_format = RODA_WIRE_NONE;
  // The last run was small, and no other one was under way from its start to its end.
  std::atomic<bool> was_alone{false};
};

namespace {

// Runs since the start, and those that have not ended.
std::atomic<std::uint64_t> num_begun{0};
std::atomic<int> num_under_way{0};

// A run that is likely to be alone is waited for so long: its thread would have nothing else to do, and a call by
// another thread with what TensorFlow makes of it takes longer than a small collective of ranks that are all there. No
// longer: ranks may run operations in different orders.
constexpr std::int64_t kPatienceUs = 50;
constexpr std::uint64_t kMostBytesAlone = 16 * 1024;

// TF_DataType's numbers.
constexpr int kTfInt32 = 3;
constexpr std::array<std::pair<int, int>, 11> kDtypes{{{1, RODA_FLOAT32},
                                                       {2, RODA_FLOAT64},
                                                       {kTfInt32, RODA_INT32},
                                                       {4, RODA_UINT8},
                                                       {5, RODA_INT16},
                                                       {6, RODA_INT8},
                                                       {9, RODA_INT64},
                                                       {10, RODA_BOOL},
                                                       {14, RODA_BFLOAT16},
                                                       {17, RODA_UINT16},
                                                       {19, RODA_FLOAT16}}};

int dtype_of(const TF_Tensor* tensor) {
  const int type = api.TF_TensorType(tensor);
  const auto* found =
      std::find_if(kDtypes.begin(), kDtypes.end(), [&](const auto& pair) { return pair.first == type; });
  return found == kDtypes.end() ? -1 : found->second;
}

// TF_Code of an error: programs catch FailedPreconditionError, for one, where the ranks disagree.
int code_of(int code) {
  constexpr int kUnknown = 2, kInvalidArgument = 3, kResourceExhausted = 8, kFailedPrecondition = 9, kAborted = 10;
  switch (code) {
    case RODA_ERR_INVALID:
      return kInvalidArgument;
    case RODA_ERR_PRECONDITION:
      return kFailedPrecondition;
    case RODA_ERR_NO_MEMORY:
      return kResourceExhausted;
    case RODA_ERR_ABORTED:
    case RODA_ERR_PEER:
    case RODA_ERR_TIMEOUT:
      return kAborted;
    default:
      return kUnknown;
  }
}

class TfStatus {
 public:
  TfStatus() : status_(api.TF_NewStatus()) {}
  ~TfStatus() { api.TF_DeleteStatus(status_); }
  TfStatus(const TfStatus&) = delete;
  TfStatus& operator=(const TfStatus&) = delete;
  operator TF_Status*() const { return status_; }
  bool ok() const { return api.TF_GetCode(status_) == 0; }

 private:
  TF_Status* status_;
};

void fail(TF_OpKernelContext* context, const roda_error& error) {
  const TfStatus status;
  api.TF_SetStatus(status, code_of(error.code), error.message);
  api.TF_OpKernelContext_Failure(context, status);
}

// What `compute` is given to call at the end is the address of a std::function<void()> in TensorFlow's frame, which is
// gone by then: it has to be copied. This is libstdc++'s layout of it, with which TensorFlow is compiled, whatever this
// file is compiled with; gcc keeps it, for programs of different versions pass such objects to one another.
class Done {
 public:
  explicit Done(const TF_AsyncOpKernelDoneCallback* theirs) {
    const auto* from = reinterpret_cast<const Layout*>(theirs);
    if (from->manage == nullptr) return;
    from->manage(&layout_, from, kClone);
    layout_.manage = from->manage;
    layout_.invoke = from->invoke;
  }
  ~Done() {
    if (layout_.manage != nullptr) layout_.manage(&layout_, &layout_, kDestroy);
  }
  Done(const Done&) = delete;
  Done& operator=(const Done&) = delete;
  void operator()() const { layout_.invoke(&layout_); }

 private:
  static constexpr int kClone = 2;
  static constexpr int kDestroy = 3;
  struct Layout {
    alignas(void*) std::byte functor[16]{};
    bool (*manage)(void* to, const void* from, int what) = nullptr;
    void (*invoke)(const void* functor) = nullptr;
  };
  Layout layout_;
};

// One run of a kernel, from its start to its end.
struct Run {
  Run(Kernel& its_kernel, TF_OpKernelContext* its_context, const TF_AsyncOpKernelDoneCallback* its_done)
      : kernel(its_kernel),
        context(its_context),
        done(its_done),
        is_first(num_under_way.fetch_add(1, std::memory_order_relaxed) == 0),
        number(num_begun.fetch_add(1, std::memory_order_relaxed) + 1) {}
  ~Run() { release_tensors(); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void release_tensors() {
    for (TF_Tensor* tensor : tensors) {
      if (tensor != nullptr) api.TF_DeleteTensor(tensor);
    }
    tensors.clear();
  }

  // Nothing of the run is touched after that.
  void end() {
    num_under_way.fetch_sub(1, std::memory_order_relaxed);
    const bool was_last = num_begun.load(std::memory_order_relaxed) == number;
    kernel.was_alone.store(is_small && is_first && was_last, std::memory_order_relaxed);
    release_tensors();
    done();
  }

  struct Output {
    Run* run;
    int index;
    int type;  // TF_DataType
  };

  Kernel& kernel;
  TF_OpKernelContext* context;
  Done done;
  bool is_first;  // no other one was under way
  std::uint64_t number;
  bool is_small = false;
  std::vector<TF_Tensor*> tensors;  // inputs, null where the output lies there, and outputs, until the end
  std::vector<Output> outputs;      // whose shapes are known later
};

// Null: TensorFlow has no memory, and the context knows it.
TF_Tensor* add_output(Run* run, int index, int type, const std::int64_t* shape, int ndim, std::size_t bytes) {
  const TfStatus status;
  TF_Tensor* tensor = api.TF_AllocateOutput(run->context, index, type, shape, ndim, bytes, status);
  if (tensor != nullptr && status.ok()) {
    run->tensors.push_back(tensor);
    return tensor;
  }
  api.TF_OpKernelContext_Failure(run->context, status);
  return nullptr;
}

// An output like that input: in its memory, where nothing else of the program needs it, as with a gradient that was
// just computed. It is not touched for the first time then, which for a large model takes longer than the collective.
// Null: TensorFlow has no memory, and the context knows it.
TF_Tensor* add_output_like_input(Run* run, int index, const std::int64_t* shape, int ndim) {
  TF_Tensor*& input = run->tensors[static_cast<std::size_t>(index)];
  api.TF_DeleteTensor(std::exchange(input, nullptr));  // TensorFlow counts who holds it
  const TfStatus status;
  int forwarded = -1;
  TF_Tensor* output =
      api.TF_ForwardInputOrAllocateOutput(run->context, &index, 1, index, shape, ndim, &forwarded, status);
  if (output != nullptr) run->tensors.push_back(output);
  if (output != nullptr && status.ok() && forwarded < 0) api.TF_GetInput(run->context, index, &input, status);
  if (output != nullptr && status.ok()) return output;
  api.TF_OpKernelContext_Failure(run->context, status);
  return nullptr;
}

// roda_op's way to memory.
void* allocate(void* context, const std::int64_t* shape, std::int32_t ndim, std::uint64_t bytes) {
  auto* output = static_cast<Run::Output*>(context);
  TF_Tensor* tensor = add_output(output->run, output->index, output->type, shape, ndim, bytes);
  return tensor == nullptr ? nullptr : api.TF_TensorData(tensor);
}

void finish_alltoall(Run* run, roda_handle handle) {
  std::vector<std::int32_t> splits(static_cast<std::size_t>(std::max(roda_process_set_size(run->kernel.set), 0)));
  roda_output output{};
  output.struct_size = sizeof output;
  output.received_splits = splits.data();
  output.received_splits_capacity = static_cast<std::int32_t>(splits.size());
  roda_error error{};
  error.struct_size = sizeof error;
  if (roda_get_output(handle, 0, &output, &error) != RODA_OK) return fail(run->context, error);
  const std::int64_t count = output.num_received_splits;
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(std::int32_t);
  TF_Tensor* tensor = add_output(run, 1, kTfInt32, &count, 1, bytes);
  if (tensor != nullptr) std::memcpy(api.TF_TensorData(tensor), splits.data(), bytes);
}

void finish_join(Run* run, roda_handle handle) {
  roda_output output{};
  output.struct_size = sizeof output;
  roda_error error{};
  error.struct_size = sizeof error;
  if (roda_get_output(handle, 0, &output, &error) != RODA_OK) return fail(run->context, error);
  tell_number(run->context, output.value);
}

// roda_then's call.
void finish(void* context, roda_handle handle) {
  std::unique_ptr<Run> run(static_cast<Run*>(context));
  roda_error error{};
  error.struct_size = sizeof error;
  if (roda_wait(handle, &error) != RODA_OK) {
    fail(run->context, error);
  } else if (run->kernel.collective == RODA_ALLTOALL) {
    finish_alltoall(run.get(), handle);
  } else if (run->kernel.collective == RODA_JOIN) {
    finish_join(run.get(), handle);
  }
  run->end();
}

// The operations of one run, with what they point at.
struct Submission {
  std::vector<roda_op> ops;
  std::vector<std::vector<std::int64_t>> shapes;
  std::vector<std::string> names;
};

// False: the context has the error.
bool describe(Run* run, Submission* submission) {
  const Kernel& kernel = run->kernel;
  const int inputs = api.TF_NumInputs(run->context);
  const int count = kernel.collective == RODA_ALLTOALL ? 1 : std::max(inputs, 1);
  const auto size = static_cast<std::size_t>(count);
  submission->ops.resize(size);
  submission->shapes.resize(size);
  submission->names.resize(size);
  run->outputs.reserve(size);
  run->tensors.reserve(2 * size + 1);
  for (int i = 0; i < inputs; ++i) {
    const TfStatus status;
    TF_Tensor* tensor = nullptr;
    api.TF_GetInput(run->context, i, &tensor, status);
    if (tensor != nullptr) run->tensors.push_back(tensor);
    if (tensor != nullptr && status.ok()) continue;
    api.TF_OpKernelContext_Failure(run->context, status);
    return false;
  }
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < size; ++i) {
    roda_op& op = submission->ops[i];
    op = {};
    op.struct_size = sizeof op;
    op.collective = kernel.collective;
    op.device = -1;
    op.op = kernel.reduce_op;
    op.root = kernel.root;
    op.process_set = kernel.set;
    op.prescale = kernel.prescale;
    op.postscale = kernel.postscale;
    op.wire_format = kernel.wire_format;
    submission->names[i] =
        count == 1 ? kernel.name : kernel.name + "_" + std::to_string(i + 1) + "of" + std::to_string(count);
    op.name = submission->names[i].c_str();
    if (inputs == 0) continue;  // join
    const TF_Tensor* tensor = run->tensors[i];
    auto& shape = submission->shapes[i];
    for (int d = 0; d < api.TF_NumDims(tensor); ++d) shape.push_back(api.TF_Dim(tensor, d));
    op.dtype = dtype_of(tensor);
    op.ndim = static_cast<std::int32_t>(shape.size());
    op.shape = shape.data();
    bytes += static_cast<std::uint64_t>(api.TF_TensorElementCount(tensor)) * roda_dtype_size(op.dtype);
    const int type = api.TF_TensorType(tensor);
    const bool is_reduce = kernel.collective == RODA_REDUCE;
    if (is_reduce || kernel.collective == RODA_ALLREDUCE || kernel.collective == RODA_BROADCAST) {
      TF_Tensor* output = add_output_like_input(run, static_cast<int>(i), op.shape, op.ndim);
      if (output == nullptr) return false;
      op.output = api.TF_TensorData(output);
      op.input = run->tensors[i] == nullptr ? op.output : api.TF_TensorData(run->tensors[i]);
      if (is_reduce && kernel.root != roda_rank() && op.input != op.output) {  // the engine leaves it as it is
        std::memcpy(op.output, op.input, api.TF_TensorByteSize(output));
      }
    } else {
      op.input = api.TF_TensorData(tensor);
      run->outputs.push_back({run, static_cast<int>(i), type});
      op.allocate = &allocate;
      op.allocate_context = &run->outputs.back();
    }
  }
  run->is_small = inputs > 0 && bytes <= kMostBytesAlone;  // a join ends when everybody has joined
  if (kernel.collective == RODA_ALLTOALL) {
    const TF_Tensor* splits = run->tensors[1];
    submission->ops[0].num_splits = static_cast<std::int32_t>(api.TF_TensorElementCount(splits));
    // Without splits each rank gets as many rows.
    if (submission->ops[0].num_splits != 0) {
      submission->ops[0].splits = static_cast<const std::int32_t*>(api.TF_TensorData(splits));
    }
  }
  return true;
}

std::string text_of(TF_OpKernelConstruction* construction, const char* attribute) {
  const TfStatus status;
  std::int32_t list = 0, total = 0;
  api.TF_OpKernelConstruction_GetAttrSize(construction, attribute, &list, &total, status);
  if (!status.ok() || total <= 0) return {};
  std::string text(static_cast<std::size_t>(total), '\0');
  api.TF_OpKernelConstruction_GetAttrString(construction, attribute, text.data(), text.size(), status);
  return status.ok() ? text : std::string();
}

}  // namespace

Kernel* make_kernel(TF_OpKernelConstruction* construction, int collective) {
  auto kernel = std::make_unique<Kernel>();
  kernel->collective = collective;
  // An op that lacks one of these keeps the default.
  const TfStatus status;
  api.TF_OpKernelConstruction_GetAttrInt32(construction, "reduce_op", &kernel->reduce_op, status);
  api.TF_OpKernelConstruction_GetAttrInt32(construction, "root_rank", &kernel->root, status);
  api.TF_OpKernelConstruction_GetAttrInt32(construction, "process_set_id", &kernel->set, status);
  api.TF_OpKernelConstruction_GetAttrFloat(construction, "prescale_factor", &kernel->prescale, status);
  api.TF_OpKernelConstruction_GetAttrFloat(construction, "postscale_factor", &kernel->postscale, status);
  api.TF_OpKernelConstruction_GetAttrInt32(construction, "wire_format", &kernel->wire_format, status);
  kernel->name = text_of(construction, "tensor_name");
  if (!kernel->name.empty()) return kernel.release();
  const TF_StringView node = api.TF_OpKernelConstruction_GetName(construction);
  kernel->name.assign(node.data, node.len);
  unsigned char ignores_scope = 0;
  api.TF_OpKernelConstruction_GetAttrBool(construction, "ignore_name_scope", &ignores_scope, status);
  const std::size_t slash = kernel->name.rfind('/');
  if (ignores_scope != 0 && slash != std::string::npos) kernel->name.erase(0, slash + 1);
  return kernel.release();
}

void compute(void* kernel, TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done) {
  auto run = std::make_unique<Run>(*static_cast<Kernel*>(kernel), context, done);
  Submission submission;
  roda_error error{};
  error.struct_size = sizeof error;
  if (!describe(run.get(), &submission)) return run->end();
  const auto count = static_cast<std::int32_t>(submission.ops.size());
  const bool waits = run->kernel.was_alone.load(std::memory_order_relaxed) && run->is_first && run->is_small;
  if (waits) submission.ops[0].flags |= RODA_OP_WILL_WAIT;
  roda_handle handle = 0;
  if (roda_submit(submission.ops.data(), count, &handle, &error) != RODA_OK) {
    fail(context, error);
    return run->end();
  }
  if (waits && roda_wait_for(handle, kPatienceUs, nullptr) == RODA_AGAIN) run->is_small = false;  // next time it is not
  // No error: the handle is known.
  roda_then(handle, &finish, run.release(), &error);
}

void destroy(void* kernel) { delete static_cast<Kernel*>(kernel); }

void* create_number(TF_OpKernelConstruction* construction) {
  auto number = std::make_unique<Number>();
  const TfStatus status;
  api.TF_OpKernelConstruction_GetAttrInt32(construction, "process_set_id", &number->set, status);
  return number.release();
}

void destroy_number(void* kernel) { delete static_cast<Number*>(kernel); }

void tell_number(TF_OpKernelContext* context, int number) {
  const TfStatus status;
  TF_Tensor* tensor = api.TF_AllocateOutput(context, 0, kTfInt32, nullptr, 0, sizeof(std::int32_t), status);
  if (tensor == nullptr || !status.ok()) return api.TF_OpKernelContext_Failure(context, status);
  const std::int32_t value = number;
  std::memcpy(api.TF_TensorData(tensor), &value, sizeof value);
  api.TF_DeleteTensor(tensor);
}

}  // namespace roda::tf
