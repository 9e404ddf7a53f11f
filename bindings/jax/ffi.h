// XLA's foreign function interface, as far as the handler needs it, which JAX calls it through. It is a C interface
// that passes structs with their size in front (xla/ffi/api/c_api.h, in jaxlib since 0.4.31): no header of it is
// included and nothing of it is linked, so that one binary serves every version. Names are ours, layouts theirs. Older
// versions have a pointer of no use where `extensions` is, and no Call::future; the size of Api tells what there is.
// tests/python/jax/test_layout.py compares all of it with the header that jaxlib brings along.
#pragma once

#include <cstddef>
#include <cstdint>

namespace roda::jax {

struct Extension {
  std::size_t struct_size;
  int type;
  Extension* next;
};
constexpr int kMetadataExtension = 1;

struct Version {
  std::size_t struct_size;
  Extension* extensions;
  int major;
  int minor;
};

// What a call ended with; XLA's own.
struct Failure;
struct Future;

struct FailureArgs {
  std::size_t struct_size;
  Extension* extensions;
  const char* message;
  int code;  // absl::StatusCode
};

struct DestroyArgs {
  std::size_t struct_size;
  Extension* extensions;
  Failure* failure;
};

struct FutureCreateArgs {
  std::size_t struct_size;
  Extension* extensions;
  Future* future;  // out
};

struct FutureDoneArgs {
  std::size_t struct_size;
  Extension* extensions;
  Future* future;
};

struct FutureFailedArgs {
  std::size_t struct_size;
  Extension* extensions;
  Future* future;
  Failure* failure;  // XLA's from then on
};

// What a call runs in; XLA's own.
struct Context;

struct StreamArgs {
  std::size_t struct_size;
  Extension* extensions;
  Context* context;
  void* stream;  // out
};

struct MemoryArgs {
  std::size_t struct_size;
  Extension* extensions;
  Context* context;
  std::size_t bytes;
  std::size_t alignment;
  void* data;  // out
};

struct FreeArgs {
  std::size_t struct_size;
  Extension* extensions;
  Context* context;
  std::size_t bytes;
  void* data;
};

struct OrdinalArgs {
  std::size_t struct_size;
  Extension* extensions;
  Context* context;
  std::int32_t device;  // out
};

struct Api {
  std::size_t struct_size;
  Extension* extensions;
  Version version;
  const void* internal;
  Failure* (*create_failure)(FailureArgs*);
  void* not_used;
  void (*destroy_failure)(DestroyArgs*);
  void* nor_used;
  Failure* (*stream_of)(StreamArgs*);
  void* not_used_either[4];
  Failure* (*allocate)(MemoryArgs*);
  Failure* (*free)(FreeArgs*);
  void* of_threads[2];
  Failure* (*create_future)(FutureCreateArgs*);
  Failure* (*future_is_done)(FutureDoneArgs*);
  Failure* (*future_has_failed)(FutureFailedArgs*);
  void* of_runs;
  Failure* (*device_of)(OrdinalArgs*);
};

// xla::PrimitiveType
enum DataType : int {
  kPred = 1,
  kS8 = 2,
  kS16 = 3,
  kS32 = 4,
  kS64 = 5,
  kU8 = 6,
  kU16 = 7,
  kU32 = 8,
  kU64 = 9,
  kF16 = 10,
  kF32 = 11,
  kF64 = 12,
  kC64 = 15,
  kBF16 = 16,
  kF8E5M2 = 19,
  kF8E4M3FN = 20,
};

struct Buffer {
  std::size_t struct_size;
  Extension* extensions;
  DataType dtype;
  void* data;
  std::int64_t rank;
  std::int64_t* dims;
};

struct Text {
  const char* data;
  std::size_t length;
};

struct Scalar {
  DataType dtype;
  void* value;
};

struct Buffers {
  std::size_t struct_size;
  Extension* extensions;
  std::int64_t size;
  int* types;
  Buffer** buffers;
};

constexpr int kScalarAttribute = 3;
constexpr int kTextAttribute = 4;
struct Attributes {
  std::size_t struct_size;
  Extension* extensions;
  std::int64_t size;
  int* types;
  Text** names;
  void** values;
};

struct Call {
  std::size_t struct_size;
  Extension* extensions;
  const Api* api;
  Context* context;
  int stage;
  Buffers inputs;
  Buffers outputs;
  Attributes attributes;
  Future* future;  // out: the call goes on until it is completed
};

struct Metadata {
  std::size_t struct_size;
  Version version;
  std::uint32_t traits;
};

struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

}  // namespace roda::jax
