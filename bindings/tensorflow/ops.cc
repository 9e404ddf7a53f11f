// The ops, as TensorFlow gets to know them while it loads this library (tf.load_op_library).
//
// Collectives take lists: a group is one op whose tensors travel together, of different dtypes if need be. They are not
// stateful: automatic control dependencies would put stateful ops of a tf.function in the order of the program, one at
// a time, and ranks that trace in different orders would wait for one another for ever.
#include <initializer_list>
#include <string>
#include <vector>

#include "bindings/c/roda.h"
#include "bindings/tensorflow/api.h"
#include "bindings/tensorflow/kernels.h"

namespace roda::tf {
namespace {

std::string problem;  // why nothing was registered

using Infer = void (*)(TF_ShapeInferenceContext*, TF_Status*);

void same_shapes(TF_ShapeInferenceContext* context, TF_Status* status) {
  TF_ShapeHandle* shape = api.TF_NewShapeHandle();
  for (int i = 0; i < api.TF_ShapeInferenceContextNumInputs(context); ++i) {
    api.TF_ShapeInferenceContextGetInput(context, i, shape, status);
    api.TF_ShapeInferenceContextSetOutput(context, i, shape, status);
  }
  api.TF_DeleteShapeHandle(shape);
}

void scalar(TF_ShapeInferenceContext* context, TF_Status* status) {
  TF_ShapeHandle* shape = api.TF_ShapeInferenceContextScalar(context);
  api.TF_ShapeInferenceContextSetOutput(context, 0, shape, status);
  api.TF_DeleteShapeHandle(shape);
}

// The size of a dimension that is not known yet.
constexpr auto kUnknown = static_cast<std::size_t>(-1);

// The input's shape with another first dimension.
void other_rows(TF_ShapeInferenceContext* context, int index, TF_Status* status) {
  TF_ShapeHandle* input = api.TF_NewShapeHandle();
  api.TF_ShapeInferenceContextGetInput(context, index, input, status);
  if (api.TF_ShapeInferenceContextRankKnown(context, input) != 0) {
    TF_ShapeHandle* shape = api.TF_NewShapeHandle();
    TF_ShapeHandle* rows = api.TF_ShapeInferenceContextVectorFromSize(context, kUnknown);
    TF_ShapeHandle* row = api.TF_NewShapeHandle();
    const std::int64_t rank = api.TF_ShapeInferenceContextRank(context, input);
    // A scalar counts as one row.
    if (rank > 0) api.TF_ShapeInferenceContextSubshape(context, input, 1, rank, row, status);
    if (rank > 1 && api.TF_GetCode(status) == 0) {
      api.TF_ShapeInferenceContextConcatenateShapes(context, rows, row, shape, status);
      if (api.TF_GetCode(status) == 0) api.TF_ShapeInferenceContextSetOutput(context, index, shape, status);
    } else if (api.TF_GetCode(status) == 0) {
      api.TF_ShapeInferenceContextSetOutput(context, index, rows, status);
    }
    for (TF_ShapeHandle* handle : {shape, rows, row}) api.TF_DeleteShapeHandle(handle);
  }
  api.TF_DeleteShapeHandle(input);
}

void all_other_rows(TF_ShapeInferenceContext* context, TF_Status* status) {
  const auto inputs = static_cast<int>(api.TF_ShapeInferenceContextNumInputs(context));
  for (int i = 0; i < inputs && api.TF_GetCode(status) == 0; ++i) other_rows(context, i, status);
}

void rows_and_splits(TF_ShapeInferenceContext* context, TF_Status* status) {
  other_rows(context, 0, status);
  if (api.TF_GetCode(status) != 0) return;
  TF_ShapeHandle* splits = api.TF_ShapeInferenceContextVectorFromSize(context, kUnknown);
  api.TF_ShapeInferenceContextSetOutput(context, 1, splits, status);
  api.TF_DeleteShapeHandle(splits);
}

using Specs = std::vector<const char*>;

// Registered ops and kernels stay for the life of the process.
class Registration {
 public:
  ~Registration() { api.TF_DeleteStatus(status_); }

  void op(const char* name, const Specs& attributes, const Specs& inputs, const Specs& outputs, Infer infer,
          bool is_stateful) {
    TF_OpDefinitionBuilder* builder = api.TF_NewOpDefinitionBuilder(name);
    for (const char* spec : attributes) api.TF_OpDefinitionBuilderAddAttr(builder, spec);
    for (const char* spec : inputs) api.TF_OpDefinitionBuilderAddInput(builder, spec);
    for (const char* spec : outputs) api.TF_OpDefinitionBuilderAddOutput(builder, spec);
    // Whatever its argument is, the call makes an op stateful.
    if (is_stateful) api.TF_OpDefinitionBuilderSetIsStateful(builder, true);
    api.TF_OpDefinitionBuilderSetShapeInferenceFunction(builder, infer);
    api.TF_RegisterOpDefinition(builder, status_);
    check(name);
  }

  template <int collective>
  void collective_kernel(const char* op, const Specs& arguments) {
    for (const char* device : {"CPU", "GPU"}) {
      kernel(op, device, api.TF_NewAsyncKernelBuilder(op, device, &create<collective>, &compute, &destroy), arguments);
    }
  }

  template <int (*get)(int)>
  void number_kernel(const char* op, const char* output) {
    for (const char* device : {"CPU", "GPU"}) {
      kernel(op, device, api.TF_NewKernelBuilder(op, device, &create_number, &compute_number<get>, &destroy_number),
             {output});
    }
  }

 private:
  // The C API has no way to the stream of a GPU: tensors there come through host memory.
  void kernel(const char* op, const char* device, TF_KernelBuilder* builder, const Specs& arguments) {
    if (std::string(device) == "GPU") {
      for (const char* argument : arguments) api.TF_KernelBuilder_HostMemory(builder, argument);
    }
    api.TF_RegisterKernelBuilder(op, builder, status_);
    check(op);
  }

  void check(const char* name) {
    if (api.TF_GetCode(status_) == 0) return;
    problem += std::string(problem.empty() ? "" : "; ") + name + ": " + api.TF_Message(status_);
    api.TF_SetStatus(status_, 0, "");
  }

  TF_Status* status_ = api.TF_NewStatus();
};

// Names of the arguments of a collective over a list.
const Specs kListArguments{"tensors", "outputs"};

template <int collective>
void add_collective(Registration* registration, const char* name, const char* types, Specs attributes, Infer infer) {
  attributes.insert(attributes.end(),
                    {types, "tensor_name: string = ''", "ignore_name_scope: bool = false", "process_set_id: int = 0"});
  registration->op(name, attributes, {"tensors: T"}, {"outputs: T"}, infer, false);
  registration->collective_kernel<collective>(name, kListArguments);
}

template <int (*get)(int)>
void add_number(Registration* registration, const char* name, const Specs& attributes) {
  registration->op(name, attributes, {}, {"number: int32"}, scalar, true);
  registration->number_kernel<get>(name, "number");
}

int size_of(int set) { return set == 0 ? roda_size() : roda_process_set_size(set); }
int rank_of(int) { return roda_rank(); }
int local_size_of(int) { return roda_local_size(); }
int local_rank_of(int) { return roda_local_rank(); }
int is_included(int set) { return roda_process_set_included(set); }

void register_all() {
  Registration registration;
  constexpr const char* kNumbers = "T: list({uint8, int8, int32, int64, half, bfloat16, float, double}) >= 1";
  constexpr const char* kAll =
      "T: list({uint8, int8, uint16, int16, int32, int64, half, bfloat16, float, double, bool}) >= 1";
  const Specs reduction{"reduce_op: int = 1", "prescale_factor: float = 1.0", "postscale_factor: float = 1.0"};
  Specs formatted = reduction;
  formatted.push_back("wire_format: int = 0");
  add_collective<RODA_ALLREDUCE>(&registration, "HorovodAllreduce", kNumbers, formatted, same_shapes);
  add_collective<RODA_REDUCE>(
      &registration, "HorovodReduce", kNumbers,
      {"root_rank: int", "reduce_op: int = 1", "prescale_factor: float = 1.0", "postscale_factor: float = 1.0"},
      same_shapes);
  add_collective<RODA_REDUCESCATTER>(&registration, "HorovodReducescatter", kNumbers, reduction, all_other_rows);
  add_collective<RODA_ALLGATHER>(&registration, "HorovodAllgather", kAll, {}, all_other_rows);
  add_collective<RODA_BROADCAST>(&registration, "HorovodBroadcast", kAll, {"root_rank: int"}, same_shapes);
  registration.op("HorovodAlltoall",
                  {"T: {uint8, int8, uint16, int16, int32, int64, half, bfloat16, float, double, bool}",
                   "tensor_name: string = ''", "ignore_name_scope: bool = false", "process_set_id: int = 0"},
                  {"tensor: T", "splits: int32"}, {"output: T", "received_splits: int32"}, rows_and_splits, false);
  registration.collective_kernel<RODA_ALLTOALL>("HorovodAlltoall", {"tensor", "splits", "output", "received_splits"});
  registration.op("HorovodJoin", {}, {}, {"last_rank: int32"}, scalar, true);
  registration.collective_kernel<RODA_JOIN>("HorovodJoin", {"last_rank"});
  add_number<size_of>(&registration, "HorovodSize", {"process_set_id: int = 0"});
  add_number<is_included>(&registration, "HorovodProcessSetIncluded", {"process_set_id: int = 0"});
  add_number<rank_of>(&registration, "HorovodRank", {});
  add_number<local_size_of>(&registration, "HorovodLocalSize", {});
  add_number<local_rank_of>(&registration, "HorovodLocalRank", {});
}

// While the library is loaded, and after what stands above.
const bool is_usable = [] {
  problem = load();
  if (problem.empty()) register_all();
  return problem.empty();
}();

}  // namespace
}  // namespace roda::tf

// Why the ops can't be used; an empty text: they can.
extern "C" RODA_API const char* roda_tensorflow_problem() {
  return roda::tf::is_usable ? "" : roda::tf::problem.c_str();
}
