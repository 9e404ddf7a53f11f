#include "plugins/devices/cpu/cpu_device.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "plugins/base/copy.h"
#include "plugins/base/status.h"
#include "plugins/devices/cpu/kernels.h"

namespace roda::cpu {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

ReduceFunction reduce_function(std::int32_t dtype, std::int32_t op) {
  if (dtype < 0 || dtype >= RODA_DTYPE_COUNT || op < 0 || op >= RODA_REDUCE_OP_COUNT) return nullptr;
  return kernels().reduce[dtype][op];
}

std::int32_t unsupported(const std::string& what, roda_error* error) {
  return Status::unsupported("the CPU can't " + what).to(error);
}

std::int32_t probe(const roda_host*, roda_error*) { return RODA_OK; }

std::int32_t alloc(std::int32_t, std::size_t bytes, roda_memory* memory, roda_error* error) {
  const bool huge = bytes >= kHugePage;
  void* address = nullptr;
  if (::posix_memalign(&address, huge ? kHugePage : 64, bytes > 0 ? bytes : 1) != 0) {
    return Status::no_memory("no room for " + std::to_string(bytes) + " bytes of host memory").to(error);
  }
  if (huge) (void)::madvise(address, bytes, MADV_HUGEPAGE);  // a wish
  *memory = roda_memory{sizeof(roda_memory), RODA_MEMORY_HOST, -1, 0, address, bytes, address};
  return RODA_OK;
}

void release(roda_memory* memory) {
  std::free(memory->owner);
  memory->address = memory->owner = nullptr;
  memory->length = 0;
}

std::int32_t copy_entry(void* to, const void* from, std::size_t bytes, void*, roda_error*) {
  copy(to, from, bytes);
  return RODA_OK;
}

std::int32_t reduce_entry(void* to, const void* a, const void* b, std::size_t count, std::int32_t dtype,
                          std::int32_t op, void*, roda_error* error) {
  const void* sources[2] = {a, b};
  std::int32_t code = reduce_many(to, sources, 2, count, dtype, op);
  if (code == RODA_OK) return code;
  return unsupported(std::string("reduce ") + roda_dtype_name(dtype) + " by " + roda_reduce_op_name(op), error);
}

std::int32_t scale_entry(void* data, std::size_t count, std::int32_t dtype, double factor, void*, roda_error* error) {
  const bool is_known = dtype >= 0 && dtype < RODA_DTYPE_COUNT;
  if (!is_known || kernels().scale[dtype] == nullptr) {
    return unsupported("scale " + (is_known ? std::string(roda_dtype_name(dtype)) : "dtype " + std::to_string(dtype)),
                       error);
  }
  if (factor != 1.0) kernels().scale[dtype](data, count, factor);
  return RODA_OK;
}

using CopyFunction = void (*)(void*, const void*, std::size_t);

void copy_small(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

// What a bucket as a whole is too large for the cache, its tensors are too.
CopyFunction copy_for(const roda_pack_item* items, std::size_t count) {
  std::size_t total = 0;
  for (std::size_t i = 0; i < count; ++i) total += items[i].bytes;
  return total >= kStreamingBytes ? copy_streaming : copy_small;
}

std::int32_t pack(void* buffer, const roda_pack_item* items, std::size_t count, void*, roda_error*) {
  CopyFunction copy_item = copy_for(items, count);
  for (std::size_t i = 0; i < count; ++i) {
    copy_item(static_cast<char*>(buffer) + items[i].offset, items[i].tensor, items[i].bytes);
  }
  return RODA_OK;
}

std::int32_t unpack(const void* buffer, const roda_pack_item* items, std::size_t count, void*, roda_error*) {
  CopyFunction copy_item = copy_for(items, count);
  for (std::size_t i = 0; i < count; ++i) {
    copy_item(items[i].tensor, static_cast<const char*>(buffer) + items[i].offset, items[i].bytes);
  }
  return RODA_OK;
}

roda_device make_device() {
  static char description[64];
  std::snprintf(description, sizeof description, "host memory, %s kernels", kernels().isa);
  roda_device device{};
  device.struct_size = sizeof device;
  device.abi_version = RODA_ABI_VERSION;
  device.name = "cpu";
  device.description = description;
  device.memory_kind = RODA_MEMORY_HOST;
  device.probe = probe;
  device.alloc = alloc;
  device.free = release;
  device.copy = copy_entry;
  device.reduce = reduce_entry;
  device.scale = scale_entry;
  device.pack = pack;
  device.unpack = unpack;
  return device;
}

}  // namespace

std::int32_t reduce_many(void* destination, const void* const* sources, int n, std::size_t count, std::int32_t dtype,
                         std::int32_t op) {
  ReduceFunction function = reduce_function(dtype, op);
  if (function == nullptr) return RODA_ERR_UNSUPPORTED;
  if (n < 1) return RODA_ERR_INVALID;
  if (count > 0) function(destination, sources, n, count);
  return RODA_OK;
}

bool adasum_dots(const void* a, const void* b, std::size_t count, std::int32_t dtype, double* sums) {
  const DotsFunction function = roda_dtype_size(dtype) == 0 ? nullptr : kernels().dots[dtype];
  if (function != nullptr && count > 0) function(a, b, count, sums);
  return function != nullptr;
}

bool adasum_weigh(void* to, const void* a, const void* b, std::size_t count, std::int32_t dtype, double weight_a,
                  double weight_b) {
  const WeighFunction function = roda_dtype_size(dtype) == 0 ? nullptr : kernels().weigh[dtype];
  if (function != nullptr && count > 0) function(to, a, b, count, weight_a, weight_b);
  return function != nullptr;
}

void encode(std::int32_t format, void* message, const float* values, std::size_t count, std::uint64_t first,
            std::uint64_t seed) {
  kernels().encode[format](message, values, count, first, seed);
}

void encode_fed(std::int32_t format, void* message, const float* values, float* residual, float share,
                std::size_t count, std::uint64_t first, std::uint64_t seed) {
  kernels().encode_fed[format](message, values, residual, share, count, first, seed);
}

void decode(std::int32_t format, float* to, const float* local, const void* message, std::size_t count) {
  kernels().decode[format](to, local, message, count);
}

}  // namespace roda::cpu

const roda_device* roda_cpu_device(void) {
  static const roda_device device = roda::cpu::make_device();
  return &device;
}
