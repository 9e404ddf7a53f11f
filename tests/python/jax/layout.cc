// Compiled, and no more: what bindings/jax/ffi.h says of XLA's structs against the header that a jaxlib brings along.
#include <type_traits>

#include "bindings/jax/ffi.h"
#include "xla/ffi/api/c_api.h"

#define SAME(ours, our_field, theirs, their_field)                                       \
  static_assert(offsetof(roda::jax::ours, our_field) == offsetof(theirs, their_field) && \
                    sizeof(roda::jax::ours::our_field) == sizeof(theirs::their_field),   \
                #theirs "::" #their_field " is not where bindings/jax/ffi.h has it")

using TheirExtension = std::remove_pointer_t<decltype(XLA_FFI_CallFrame::extension_start)>;  // whose name changes
SAME(Extension, type, TheirExtension, type);
SAME(Extension, next, TheirExtension, next);
SAME(Version, major, XLA_FFI_Api_Version, major_version);
SAME(Version, minor, XLA_FFI_Api_Version, minor_version);
SAME(FailureArgs, message, XLA_FFI_Error_Create_Args, message);
SAME(FailureArgs, code, XLA_FFI_Error_Create_Args, errc);
SAME(DestroyArgs, failure, XLA_FFI_Error_Destroy_Args, error);
SAME(StreamArgs, context, XLA_FFI_Stream_Get_Args, ctx);
SAME(StreamArgs, stream, XLA_FFI_Stream_Get_Args, stream);
SAME(MemoryArgs, bytes, XLA_FFI_DeviceMemory_Allocate_Args, size);
SAME(MemoryArgs, alignment, XLA_FFI_DeviceMemory_Allocate_Args, alignment);
SAME(MemoryArgs, data, XLA_FFI_DeviceMemory_Allocate_Args, data);
SAME(FreeArgs, bytes, XLA_FFI_DeviceMemory_Free_Args, size);
SAME(FreeArgs, data, XLA_FFI_DeviceMemory_Free_Args, data);
SAME(FutureCreateArgs, future, XLA_FFI_Future_Create_Args, future);
SAME(FutureDoneArgs, future, XLA_FFI_Future_SetAvailable_Args, future);
SAME(FutureFailedArgs, future, XLA_FFI_Future_SetError_Args, future);
SAME(FutureFailedArgs, failure, XLA_FFI_Future_SetError_Args, error);
SAME(Api, version, XLA_FFI_Api, api_version);
SAME(Api, create_failure, XLA_FFI_Api, XLA_FFI_Error_Create);
SAME(Api, destroy_failure, XLA_FFI_Api, XLA_FFI_Error_Destroy);
SAME(Api, stream_of, XLA_FFI_Api, XLA_FFI_Stream_Get);
SAME(Api, allocate, XLA_FFI_Api, XLA_FFI_DeviceMemory_Allocate);
SAME(Api, free, XLA_FFI_Api, XLA_FFI_DeviceMemory_Free);
SAME(Api, create_future, XLA_FFI_Api, XLA_FFI_Future_Create);
SAME(Api, future_is_done, XLA_FFI_Api, XLA_FFI_Future_SetAvailable);
SAME(Api, future_has_failed, XLA_FFI_Api, XLA_FFI_Future_SetError);
// In newer ones.
#ifdef RODA_HAS_ORDINALS
SAME(OrdinalArgs, device, XLA_FFI_DeviceOrdinal_Get_Args, device_ordinal);
SAME(Api, device_of, XLA_FFI_Api, XLA_FFI_DeviceOrdinal_Get);
#endif
SAME(Buffer, dtype, XLA_FFI_Buffer, dtype);
SAME(Buffer, data, XLA_FFI_Buffer, data);
SAME(Buffer, rank, XLA_FFI_Buffer, rank);
SAME(Buffer, dims, XLA_FFI_Buffer, dims);
SAME(Text, data, XLA_FFI_ByteSpan, ptr);
SAME(Text, length, XLA_FFI_ByteSpan, len);
SAME(Scalar, dtype, XLA_FFI_Scalar, dtype);
SAME(Scalar, value, XLA_FFI_Scalar, value);
SAME(Buffers, size, XLA_FFI_Args, size);
SAME(Buffers, buffers, XLA_FFI_Args, args);
SAME(Buffers, buffers, XLA_FFI_Rets, rets);
SAME(Attributes, size, XLA_FFI_Attrs, size);
SAME(Attributes, types, XLA_FFI_Attrs, types);
SAME(Attributes, names, XLA_FFI_Attrs, names);
SAME(Attributes, values, XLA_FFI_Attrs, attrs);
SAME(Call, extensions, XLA_FFI_CallFrame, extension_start);
SAME(Call, api, XLA_FFI_CallFrame, api);
SAME(Call, context, XLA_FFI_CallFrame, ctx);
SAME(Call, inputs, XLA_FFI_CallFrame, args);
SAME(Call, outputs, XLA_FFI_CallFrame, rets);
SAME(Call, attributes, XLA_FFI_CallFrame, attrs);
SAME(Call, future, XLA_FFI_CallFrame, future);
SAME(Metadata, version, XLA_FFI_Metadata, api_version);
SAME(MetadataExtension, metadata, XLA_FFI_Metadata_Extension, metadata);

#define EQUAL(ours, theirs) static_assert(int{roda::jax::ours} == int{theirs}, #theirs " has another number")
EQUAL(kMetadataExtension, XLA_FFI_Extension_Metadata);
EQUAL(kScalarAttribute, XLA_FFI_AttrType_SCALAR);
EQUAL(kTextAttribute, XLA_FFI_AttrType_STRING);
EQUAL(kPred, XLA_FFI_DataType_PRED);
EQUAL(kU64, XLA_FFI_DataType_U64);
EQUAL(kF64, XLA_FFI_DataType_F64);
EQUAL(kC64, XLA_FFI_DataType_C64);
EQUAL(kBF16, XLA_FFI_DataType_BF16);
EQUAL(kF8E5M2, XLA_FFI_DataType_F8E5M2);
EQUAL(kF8E4M3FN, XLA_FFI_DataType_F8E4M3FN);
