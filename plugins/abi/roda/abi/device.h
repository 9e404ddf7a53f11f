/* The device contract, version 1: memory and compute of one kind of device. The CPU's is built in; CUDA's is a plugin
 * that exports `const roda_device* roda_device_v1(void)`. Streams and events are opaque; host memory has none and takes
 * NULL. Every entry may be called from any thread; the caller has set the device context. */
#pragma once

#include <roda/abi/host.h>
#include <roda/abi/types.h>

#define RODA_DEVICE_SYMBOL "roda_device_v1"

/* One tensor of a bucket, for fused pack and unpack: `bytes` at `tensor` <-> `offset` in the buffer. */
typedef struct roda_pack_item {
  void* tensor;
  size_t offset;
  size_t bytes;
} roda_pack_item;

typedef struct roda_device {
  uint32_t struct_size;
  uint32_t abi_version;
  const char* name;
  const char* description; /* e.g. the instruction set in use */
  int32_t memory_kind;     /* roda_memory_kind */
  uint32_t reserved;

  int32_t (*probe)(const roda_host* host, roda_error* error);

  int32_t (*alloc)(int32_t device, size_t bytes, roda_memory* memory, roda_error* error);
  void (*free)(roda_memory* memory);

  int32_t (*copy)(void* dst, const void* src, size_t bytes, void* stream, roda_error* error);
  /* dst[i] = a[i] (op) b[i]; dst may alias a or b exactly. SUM, MIN, MAX, PRODUCT; bool: sum and max are OR, product
   * and min are AND. 16-bit floats accumulate in float and round to nearest even. */
  int32_t (*reduce)(void* dst, const void* a, const void* b, size_t count, int32_t dtype, int32_t op, void* stream,
                    roda_error* error);
  /* data[i] = data[i] * factor, in place. Integers: computed in double and truncated toward zero. 16- and 32-bit floats
   * use a float factor. */
  int32_t (*scale)(void* data, size_t count, int32_t dtype, double factor, void* stream, roda_error* error);
  int32_t (*cast)(void* dst, int32_t dst_dtype, const void* src, int32_t src_dtype, size_t count, void* stream,
                  roda_error* error);
  int32_t (*pack)(void* buffer, const roda_pack_item* items, size_t count, void* stream, roda_error* error);
  int32_t (*unpack)(const void* buffer, const roda_pack_item* items, size_t count, void* stream, roda_error* error);

  /* OPTIONAL (devices with streams). */
  int32_t (*stream_create)(int32_t device, void** stream, roda_error* error);
  void (*stream_destroy)(void* stream);
  int32_t (*event_record)(void* stream, void** event, roda_error* error);
  int32_t (*event_test)(void* event, roda_error* error); /* RODA_OK or RODA_IN_PROGRESS */
  int32_t (*event_wait)(void* stream, void* event, roda_error* error);
  void (*event_release)(void* event);
} roda_device;

typedef const roda_device* (*roda_device_entry)(void);
