// TensorFlow's C API, as far as the ops need it, found in the TensorFlow that is in the process: no header of it is
// included and nothing of it is linked, so that one binary serves every version from 2.13 on.
// Its functions are described in tensorflow/c/{ops,kernels,tf_tensor,tf_status}.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

extern "C" {
struct TF_Status;
struct TF_Tensor;
struct TF_OpDefinitionBuilder;
struct TF_KernelBuilder;
struct TF_OpKernelConstruction;
struct TF_OpKernelContext;
struct TF_AsyncOpKernelDoneCallback;
struct TF_ShapeInferenceContext;
struct TF_ShapeHandle;
struct TF_StringView {
  const char* data;
  std::size_t len;
};
}

namespace roda::tf {

// Result, name, parameters.
#define RODA_TF_API(X)                                                                                               \
  X(TF_Status*, TF_NewStatus, ())                                                                                    \
  X(void, TF_DeleteStatus, (TF_Status*))                                                                             \
  X(void, TF_SetStatus, (TF_Status*, int code, const char* message))                                                 \
  X(int, TF_GetCode, (const TF_Status*))                                                                             \
  X(const char*, TF_Message, (const TF_Status*))                                                                     \
  X(TF_OpDefinitionBuilder*, TF_NewOpDefinitionBuilder, (const char* name))                                          \
  X(void, TF_RegisterOpDefinition, (TF_OpDefinitionBuilder*, TF_Status*))                                            \
  X(void, TF_OpDefinitionBuilderAddAttr, (TF_OpDefinitionBuilder*, const char* spec))                                \
  X(void, TF_OpDefinitionBuilderAddInput, (TF_OpDefinitionBuilder*, const char* spec))                               \
  X(void, TF_OpDefinitionBuilderAddOutput, (TF_OpDefinitionBuilder*, const char* spec))                              \
  X(void, TF_OpDefinitionBuilderSetIsStateful, (TF_OpDefinitionBuilder*, bool))                                      \
  X(void, TF_OpDefinitionBuilderSetShapeInferenceFunction,                                                           \
    (TF_OpDefinitionBuilder*, void (*infer)(TF_ShapeInferenceContext*, TF_Status*)))                                 \
  X(std::int64_t, TF_ShapeInferenceContextNumInputs, (TF_ShapeInferenceContext*))                                    \
  X(TF_ShapeHandle*, TF_NewShapeHandle, ())                                                                          \
  X(void, TF_DeleteShapeHandle, (TF_ShapeHandle*))                                                                   \
  X(void, TF_ShapeInferenceContextGetInput, (TF_ShapeInferenceContext*, int, TF_ShapeHandle*, TF_Status*))           \
  X(void, TF_ShapeInferenceContextSetOutput, (TF_ShapeInferenceContext*, int, TF_ShapeHandle*, TF_Status*))          \
  X(TF_ShapeHandle*, TF_ShapeInferenceContextScalar, (TF_ShapeInferenceContext*))                                    \
  X(TF_ShapeHandle*, TF_ShapeInferenceContextVectorFromSize, (TF_ShapeInferenceContext*, std::size_t))               \
  X(int, TF_ShapeInferenceContextRankKnown, (TF_ShapeInferenceContext*, TF_ShapeHandle*))                            \
  X(std::int64_t, TF_ShapeInferenceContextRank, (TF_ShapeInferenceContext*, TF_ShapeHandle*))                        \
  X(void, TF_ShapeInferenceContextSubshape,                                                                          \
    (TF_ShapeInferenceContext*, TF_ShapeHandle*, std::int64_t begin, std::int64_t end, TF_ShapeHandle*, TF_Status*)) \
  X(void, TF_ShapeInferenceContextConcatenateShapes,                                                                 \
    (TF_ShapeInferenceContext*, TF_ShapeHandle*, TF_ShapeHandle*, TF_ShapeHandle*, TF_Status*))                      \
  X(TF_KernelBuilder*, TF_NewKernelBuilder,                                                                          \
    (const char* op, const char* device, void* (*create)(TF_OpKernelConstruction*),                                  \
     void (*compute)(void*, TF_OpKernelContext*), void (*destroy)(void*)))                                           \
  X(TF_KernelBuilder*, TF_NewAsyncKernelBuilder,                                                                     \
    (const char* op, const char* device, void* (*create)(TF_OpKernelConstruction*),                                  \
     void (*compute)(void*, TF_OpKernelContext*, TF_AsyncOpKernelDoneCallback*), void (*destroy)(void*)))            \
  X(void, TF_RegisterKernelBuilder, (const char* name, TF_KernelBuilder*, TF_Status*))                               \
  X(void, TF_KernelBuilder_HostMemory, (TF_KernelBuilder*, const char* argument))                                    \
  X(void, TF_OpKernelConstruction_GetAttrInt32, (TF_OpKernelConstruction*, const char*, std::int32_t*, TF_Status*))  \
  X(void, TF_OpKernelConstruction_GetAttrFloat, (TF_OpKernelConstruction*, const char*, float*, TF_Status*))         \
  X(void, TF_OpKernelConstruction_GetAttrBool, (TF_OpKernelConstruction*, const char*, unsigned char*, TF_Status*))  \
  X(void, TF_OpKernelConstruction_GetAttrSize,                                                                       \
    (TF_OpKernelConstruction*, const char*, std::int32_t* list, std::int32_t* total, TF_Status*))                    \
  X(void, TF_OpKernelConstruction_GetAttrString,                                                                     \
    (TF_OpKernelConstruction*, const char*, char* value, std::size_t most, TF_Status*))                              \
  X(TF_StringView, TF_OpKernelConstruction_GetName, (TF_OpKernelConstruction*))                                      \
  X(void, TF_OpKernelContext_Failure, (TF_OpKernelContext*, TF_Status*))                                             \
  X(int, TF_NumInputs, (TF_OpKernelContext*))                                                                        \
  X(void, TF_GetInput, (TF_OpKernelContext*, int, TF_Tensor**, TF_Status*))                                          \
  X(TF_Tensor*, TF_AllocateOutput,                                                                                   \
    (TF_OpKernelContext*, int index, int dtype, const std::int64_t* shape, int ndim, std::size_t bytes, TF_Status*)) \
  X(TF_Tensor*, TF_ForwardInputOrAllocateOutput,                                                                     \
    (TF_OpKernelContext*, const int* candidates, int count, int index, const std::int64_t* shape, int ndim,          \
     int* forwarded, TF_Status*))                                                                                    \
  X(int, TF_TensorType, (const TF_Tensor*))                                                                          \
  X(int, TF_NumDims, (const TF_Tensor*))                                                                             \
  X(std::int64_t, TF_Dim, (const TF_Tensor*, int))                                                                   \
  X(std::int64_t, TF_TensorElementCount, (const TF_Tensor*))                                                         \
  X(std::size_t, TF_TensorByteSize, (const TF_Tensor*))                                                              \
  X(void*, TF_TensorData, (const TF_Tensor*))                                                                        \
  X(void, TF_DeleteTensor, (TF_Tensor*))

struct Api {
#define RODA_TF_FIELD(result, name, parameters) result(*name) parameters = nullptr;
  RODA_TF_API(RODA_TF_FIELD)
#undef RODA_TF_FIELD
};

// Filled by load(), and constant from then on.
extern Api api;

// Looks all of it up. What is wrong, or an empty text.
std::string load();

}  // namespace roda::tf
