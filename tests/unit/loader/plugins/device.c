/* A device that does nothing, and, by the macros of meson.build, the ways in which one can be broken. */
#include <roda/abi/device.h>
#include <roda/abi/transport.h>
#include <stddef.h>
#include <stdio.h>

#ifndef SIZE
#define SIZE sizeof(roda_device)
#endif

__attribute__((visibility("default")))
const roda_plugin_info_t roda_plugin_info = {RODA_PLUGIN_MAGIC, RODA_ABI_VERSION, "device", NAME};

static int32_t probe(const roda_host* host, roda_error* error) {
  (void)host;
#ifdef FAILING_PROBE
  snprintf(error->message, sizeof error->message, "no card is plugged in");
  return RODA_ERR_UNAVAILABLE;
#else
  (void)error;
  return RODA_OK;
#endif
}
static int32_t alloc(int32_t device, size_t bytes, roda_memory* memory, roda_error* error) {
  (void)device, (void)bytes, (void)memory, (void)error;
  return RODA_ERR_NO_MEMORY;
}
static void release(roda_memory* memory) { (void)memory; }
static int32_t copy(void* to, const void* from, size_t bytes, void* stream, roda_error* error) {
  (void)to, (void)from, (void)bytes, (void)stream, (void)error;
  return RODA_OK;
}
static int32_t reduce(void* to, const void* a, const void* b, size_t count, int32_t dtype, int32_t op, void* stream,
                      roda_error* error) {
  (void)to, (void)a, (void)b, (void)count, (void)dtype, (void)op, (void)stream, (void)error;
  return RODA_OK;
}
static int32_t scale(void* data, size_t count, int32_t dtype, double factor, void* stream, roda_error* error) {
  (void)data, (void)count, (void)dtype, (void)factor, (void)stream, (void)error;
  return RODA_OK;
}
#ifndef NO_PACK
static int32_t pack(void* buffer, const roda_pack_item* items, size_t count, void* stream, roda_error* error) {
  (void)buffer, (void)items, (void)count, (void)stream, (void)error;
  return RODA_OK;
}
#endif
static int32_t unpack(const void* buffer, const roda_pack_item* items, size_t count, void* stream, roda_error* error) {
  (void)buffer, (void)items, (void)count, (void)stream, (void)error;
  return RODA_OK;
}
static int32_t device_of(const void* address) {
  (void)address;
  return 0;
}

static const roda_device table = {
    .struct_size = SIZE,
    .abi_version = RODA_ABI_VERSION,
    .name = NAME,
    .description = "computes nothing",
    .memory_kind = RODA_MEMORY_CUDA,
    .probe = probe,
    .alloc = alloc,
    .free = release,
    .copy = copy,
    .reduce = reduce,
    .scale = scale,
#ifndef NO_PACK
    .pack = pack,
#endif
    .unpack = unpack,
    .device_of = device_of,
};

__attribute__((visibility("default"))) const roda_device* roda_device_v2(void) { return &table; }
