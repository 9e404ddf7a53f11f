// Operations on MXNet's arrays, by MXNet's C API as it is in the process: no header of it is included and nothing of it
// is linked. MXNet is retired, so what is declared here by hand (mxnet/c_api.h, mxnet/engine.h of 1.9.1) stays true.
//
// An operation is pushed to MXNet's engine as an asynchronous function of the arrays: MXNet calls it when the inputs
// have their values, it hands the memory to Roda's engine and returns, and whoever reads an output waits for the end.
// So ranks may push in different orders, and no thread of MXNet's waits.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bindings/c/roda.h"

namespace roda::mxnet {
namespace {

// mxnet::Context: where an operation runs.
struct Context {
  int device_type;
  int device;
};
constexpr Context kCpu{1, 0};

// mxnet::engine::CallbackOnComplete, to be called once. The error is a dmlc::Error, a std::runtime_error and no more.
struct OnComplete {
  void (*callback)(void* engine, void* parameter, const std::runtime_error* error);
  void* engine;
  void* parameter;
};

using Function = void (*)(void* engine, void* on_complete, void* parameter);
using Deleter = void (*)(void* parameter);

// Result 0 or -1, name, parameters.
#define RODA_MX_API(X)                                                                                  \
  X(int, MXEnginePushAsyncND,                                                                           \
    (Function, void* parameter, Deleter, const Context*, void** inputs, int num_inputs, void** outputs, \
     int num_outputs, const int* property, int priority, const char* name, bool wait))                  \
  X(int, MXShallowCopyNDArray, (void*, void**))                                                         \
  X(int, MXNDArrayFree, (void*))                                                                        \
  X(int, MXNDArrayGetShapeEx64, (void*, int* ndim, const std::int64_t** shape))                         \
  X(int, MXNDArrayGetDType, (void*, int*))                                                              \
  X(int, MXNDArrayGetData, (void*, void**))                                                             \
  X(const char*, MXGetLastError, ())

struct Api {
#define RODA_MX_FIELD(result, name, parameters) result(*name) parameters = nullptr;
  RODA_MX_API(RODA_MX_FIELD)
#undef RODA_MX_FIELD
};

// Filled by roda_mxnet_load, and constant from then on.
Api api;

// mshadow's numbers of dtypes.
constexpr std::array<std::pair<int, int>, 9> kDtypes{{{0, RODA_FLOAT32},
                                                      {1, RODA_FLOAT64},
                                                      {2, RODA_FLOAT16},
                                                      {3, RODA_UINT8},
                                                      {4, RODA_INT32},
                                                      {5, RODA_INT8},
                                                      {6, RODA_INT64},
                                                      {7, RODA_BOOL},
                                                      {12, RODA_BFLOAT16}}};

int dtype_of(int type) {
  const auto* found =
      std::find_if(kDtypes.begin(), kDtypes.end(), [&](const auto& pair) { return pair.first == type; });
  return found == kDtypes.end() ? -1 : found->second;
}

void check(int result) {
  if (result != 0) throw std::runtime_error(api.MXGetLastError());
}

// An array of our own: Python may drop its before MXNet's engine comes to the operation.
class Array {
 public:
  explicit Array(void* theirs) { check(api.MXShallowCopyNDArray(theirs, &handle_)); }
  ~Array() {
    if (handle_ != nullptr) api.MXNDArrayFree(handle_);
  }
  Array(Array&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Array& operator=(Array&&) = delete;
  void* handle() const { return handle_; }
  void* data() const {
    void* data = nullptr;
    check(api.MXNDArrayGetData(handle_, &data));
    return data;
  }

 private:
  void* handle_ = nullptr;
};

// One operation, from the push to the deleter, which MXNet calls after on_complete.
struct Operation {
  std::vector<roda_op> ops;
  std::vector<std::string> names;
  std::vector<std::vector<std::int64_t>> shapes;
  std::vector<Array> inputs;
  std::vector<Array> outputs;  // none: in place
  OnComplete done{};

  void end(const char* error) const {
    if (error == nullptr) return done.callback(done.engine, done.parameter, nullptr);
    const std::runtime_error text(error);
    done.callback(done.engine, done.parameter, &text);
  }
};

// roda_then's call.
void finish(void* context, roda_handle handle) {
  roda_error error{};
  error.struct_size = sizeof error;
  const bool is_well = roda_wait(handle, &error) == RODA_OK;
  static_cast<Operation*>(context)->end(is_well ? nullptr : error.message);
}

// Called by a thread of MXNet's, which throws nothing.
void run(void*, void* on_complete, void* parameter) {
  auto* operation = static_cast<Operation*>(parameter);
  operation->done = *static_cast<const OnComplete*>(on_complete);
  try {
    for (std::size_t i = 0; i < operation->ops.size(); ++i) {
      roda_op& op = operation->ops[i];
      const Array& input = operation->inputs[i];
      const std::int64_t* shape = nullptr;  // in memory of the thread's, until its next call
      check(api.MXNDArrayGetShapeEx64(input.handle(), &op.ndim, &shape));
      op.shape = operation->shapes.emplace_back(shape, shape + op.ndim).data();
      int type = -1;
      check(api.MXNDArrayGetDType(input.handle(), &type));
      op.dtype = dtype_of(type);
      op.input = input.data();
      op.output = operation->outputs.empty() ? input.data() : operation->outputs[i].data();
      op.name = operation->names[i].c_str();
    }
    roda_error error{};
    error.struct_size = sizeof error;
    const auto count = static_cast<std::int32_t>(operation->ops.size());
    roda_handle handle = 0;
    if (roda_submit(operation->ops.data(), count, &handle, &error) == RODA_OK &&
        roda_then(handle, &finish, operation, &error) == RODA_OK) {
      return;
    }
    operation->end(error.message);
  } catch (const std::exception& error) {
    operation->end(error.what());
  }
}

void destroy(void* parameter) { delete static_cast<Operation*>(parameter); }

std::vector<void*> handles_of(const std::vector<Array>& arrays) {
  std::vector<void*> handles;
  for (const Array& array : arrays) handles.push_back(array.handle());
  return handles;
}

void push(std::unique_ptr<Operation> operation, int priority) {
  std::vector<void*> inputs = handles_of(operation->inputs);
  std::vector<void*> outputs = handles_of(operation->outputs);
  // MXNet wants an array that is written to in that list alone.
  if (outputs.empty()) outputs.swap(inputs);
  check(api.MXEnginePushAsyncND(&run, operation.get(), &destroy, &kCpu, inputs.data(), static_cast<int>(inputs.size()),
                                outputs.data(), static_cast<int>(outputs.size()), nullptr, priority, "Horovod", false));
  static_cast<void>(operation.release());
}

}  // namespace
}  // namespace roda::mxnet

extern "C" {

// Finds MXNet, which is loaded, by its library's path. What is wrong, or an empty text.
RODA_API const char* roda_mxnet_load(const char* path) {
  using roda::mxnet::api;
  static std::string problem;
  void* library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return "its library is not loaded";
#define RODA_MX_FIND(result, name, parameters)                            \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, #name)); \
  if (api.name == nullptr) problem += " " #name;
  RODA_MX_API(RODA_MX_FIND)
#undef RODA_MX_FIND
  if (!problem.empty()) problem = "it lacks" + problem + "; it has to be 1.9";
  return problem.c_str();
}

// Pushes `count` operations of one kind (the numbers are roda.h's) that complete together. Inputs and outputs are
// handles of MXNet's; no outputs mean in place. 0, or -1 with the reason in `error`.
RODA_API int roda_mxnet_push(int collective, void** inputs, void** outputs, const char** names, int count,
                             int reduce_op, int root, int process_set, double prescale, double postscale,
                             int wire_format, int priority, char* error, int error_bytes) {
  roda_op op{};
  op.struct_size = sizeof op;
  op.collective = collective;
  op.device = -1;
  op.op = reduce_op;
  op.root = root;
  op.process_set = process_set;
  op.prescale = prescale;
  op.postscale = postscale;
  op.wire_format = wire_format;
  try {
    auto operation = std::make_unique<roda::mxnet::Operation>();
    operation->shapes.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      operation->ops.push_back(op);
      operation->names.emplace_back(names[i]);
      operation->inputs.emplace_back(inputs[i]);
      if (outputs != nullptr) operation->outputs.emplace_back(outputs[i]);
    }
    roda::mxnet::push(std::move(operation), priority);
    return 0;
  } catch (const std::exception& refused) {
    std::snprintf(error, static_cast<std::size_t>(error_bytes), "%s", refused.what());
    return -1;
  }
}
}
