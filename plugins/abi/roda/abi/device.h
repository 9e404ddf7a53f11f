/* The device contract, version 2: memory and compute of one kind of device. The CPU's is built in; CUDA's is a plugin
 * that exports `const roda_device* roda_device_v2(void)` beside the symbol `roda_plugin_info` of kind "device". Streams
 * and events are opaque; host memory has none and takes NULL. Every entry may be called from any thread; the caller has
 * set the device context.
 *
 * On a device with streams, work is put on the stream and the entry returns; without a stream (NULL) it has been done
 * when the entry returns. A CUDA stream is its CUstream; the default stream, whose handle is NULL, is passed as
 * CU_STREAM_LEGACY, which is (void*)1. */
#pragma once

#include <roda/abi/host.h>
#include <roda/abi/types.h>

#define RODA_DEVICE_SYMBOL "roda_device_v2"

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
  int32_t (*pack)(void* buffer, const roda_pack_item* items, size_t count, void* stream, roda_error* error);
  int32_t (*unpack)(const void* buffer, const roda_pack_item* items, size_t count, void* stream, roda_error* error);

  /* OPTIONAL (devices with streams). */
  int32_t (*stream_create)(int32_t device, void** stream, roda_error* error);
  void (*stream_destroy)(void* stream);
  int32_t (*event_record)(void* stream, void** event, roda_error* error);
  int32_t (*event_test)(void* event, roda_error* error); /* RODA_OK or RODA_IN_PROGRESS */
  int32_t (*event_wait)(void* stream, void* event, roda_error* error);
  void (*event_release)(void* event);

  /* OPTIONAL, and younger than the entries above: NULL in a table that ends before them. */
  /* pack and unpack that scale on the way, by scale's rules: buffer[i] = tensor[i] * factor, and the reverse. */
  int32_t (*pack_scaled)(void* buffer, const roda_pack_item* items, size_t count, int32_t dtype, double factor,
                         void* stream, roda_error* error);
  int32_t (*unpack_scaled)(const void* buffer, const roda_pack_item* items, size_t count, int32_t dtype, double factor,
                           void* stream, roda_error* error);
  /* Host memory that the device reads and writes at full speed; memory->kind is RODA_MEMORY_HOST. free() takes it. */
  int32_t (*alloc_staging)(int32_t device, size_t bytes, roda_memory* memory, roda_error* error);
  /* The device whose memory lies at `address`, by its number in this process; -1: none of this kind. */
  int32_t (*device_of)(const void* address);
  /* event_record on a stream of that device: default streams, which have one handle for all devices, are those of the
   * device that is current to the thread without it. The thread needs no context. */
  int32_t (*event_record_on)(int32_t device, void* stream, void** event, roda_error* error);
  /* Whether event_record_on would record on that stream now. RODA_ERR_UNSUPPORTED: it records a graph. */
  int32_t (*stream_check)(int32_t device, void* stream, roda_error* error);
  /* alloc and free in the order of a stream: the memory is there for what is put on that stream, and on others behind
   * an event of it, and goes once what the stream holds is done. Both or none; free() takes it, too.
   * RODA_ERR_UNSUPPORTED: the device or its driver has no such memory. */
  int32_t (*alloc_on)(int32_t device, size_t bytes, void* stream, roda_memory* memory, roda_error* error);
  void (*free_on)(roda_memory* memory, void* stream);
  /* Averages of whole numbers over so many `members`, whose sum may leave the dtype's range. sums[i] = values[i], in
   * int32 for 8 and 16 bits while `members` is 2^15 at most, else in int64; of an int64 it is two, side by side: the
   * quotient by `members`, and the rest. */
  int32_t (*widen)(void* sums, const void* values, size_t count, int32_t dtype, int32_t members, void* stream,
                   roda_error* error);
  /* Sums of these, over the members, back: values[i] = sums[i] / members * postscale, truncated toward zero, by way of
   * double where `postscale` is not 1, saturated. */
  int32_t (*average)(void* values, const void* sums, size_t count, int32_t dtype, int32_t members, double postscale,
                     void* stream, roda_error* error);
} roda_device;

typedef const roda_device* (*roda_device_entry)(void);
