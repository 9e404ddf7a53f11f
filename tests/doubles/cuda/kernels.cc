#include "tests/doubles/cuda/kernels.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "plugins/devices/cpu/cpu_device.h"
#include "plugins/devices/cuda/kernel_arguments.h"

namespace roda::cuda_double {
namespace {

using cuda_device::CastArguments;
using cuda_device::ConvertArguments;
using cuda_device::PackArguments;
using cuda_device::ReduceArguments;
using cuda_device::Segment;
using cuda_device::Word;

char* at(Word address) { return reinterpret_cast<char*>(address); }

// Every block finds its segment on its own, by looking at all: what the real kernels search for must be what the host
// wrote into the table.
template <typename Arguments, typename Visit>
void for_each_block(unsigned blocks, const Arguments& arguments, Word per_block, Visit&& visit) {
  const auto* segments = reinterpret_cast<const Segment*>(at(arguments.segments));
  for (Word block = 0; block < blocks; ++block) {
    const Segment* found = nullptr;
    for (unsigned i = 0; i < arguments.count; ++i) {
      if (segments[i].first_block <= block) found = &segments[i];
    }
    const Word first = (block - found->first_block) * per_block;
    if (first >= found->length) __builtin_trap();  // a block without work: the table is wrong
    visit(*found, first, found->length - first < per_block ? found->length - first : per_block);
  }
}

template <bool kPacks>
void move(unsigned blocks, unsigned, const void* argument) {
  const auto& arguments = *static_cast<const PackArguments*>(argument);
  for_each_block(blocks, arguments, cuda_device::kBlockBytes, [&](const Segment& segment, Word first, Word bytes) {
    char* buffer = at(arguments.buffer + segment.offset + first);
    char* tensor = at(segment.tensor + first);
    std::memcpy(kPacks ? buffer : tensor, kPacks ? tensor : buffer, bytes);
  });
}

// Floats are multiplied in float or double, and rounded when they are stored; the rest by the CPU's kernels.
void convert(char* to, int to_dtype, const char* from, int from_dtype, Word count, bool has_factor, double factor) {
  const roda_device& cpu = *roda_cpu_device();
  const bool is_narrow = from_dtype == RODA_FLOAT16 || from_dtype == RODA_BFLOAT16;
  const int wide_dtype = is_narrow ? RODA_FLOAT32 : from_dtype;
  std::vector<char> wide(count * roda_dtype_size(wide_dtype));
  cpu.cast(wide.data(), wide_dtype, from, from_dtype, count, nullptr, nullptr);
  if (has_factor) cpu.scale(wide.data(), count, wide_dtype, factor, nullptr, nullptr);
  cpu.cast(to, to_dtype, wide.data(), wide_dtype, count, nullptr, nullptr);
}

template <bool kPacks>
void move_as(unsigned blocks, unsigned, const void* argument) {
  const auto& arguments = *static_cast<const ConvertArguments*>(argument);
  const std::size_t buffer_width = roda_dtype_size(arguments.buffer_dtype);
  const std::size_t tensor_width = roda_dtype_size(arguments.tensor_dtype);
  for_each_block(blocks, arguments, cuda_device::kBlockElements, [&](const Segment& segment, Word first, Word count) {
    char* buffer = at(arguments.buffer + segment.offset + first * buffer_width);
    char* tensor = at(segment.tensor + first * tensor_width);
    if (kPacks) {
      convert(buffer, arguments.buffer_dtype, tensor, arguments.tensor_dtype, count, arguments.has_factor != 0,
              arguments.factor);
    } else {
      convert(tensor, arguments.tensor_dtype, buffer, arguments.buffer_dtype, count, arguments.has_factor != 0,
              arguments.factor);
    }
  });
}

void cast(unsigned, unsigned, const void* argument) {
  const auto& arguments = *static_cast<const CastArguments*>(argument);
  convert(at(arguments.to), arguments.to_dtype, at(arguments.from), arguments.from_dtype, arguments.count,
          arguments.has_factor != 0, arguments.factor);
}

void reduce(unsigned, unsigned, const void* argument) {
  const auto& arguments = *static_cast<const ReduceArguments*>(argument);
  roda_cpu_device()->reduce(at(arguments.to), at(arguments.a), at(arguments.b), arguments.count, arguments.dtype,
                            arguments.op, nullptr, nullptr);
}

constexpr Kernel kKernels[] = {
    {"roda_pack", sizeof(PackArguments), move<true>},
    {"roda_unpack", sizeof(PackArguments), move<false>},
    {"roda_pack_as", sizeof(ConvertArguments), move_as<true>},
    {"roda_unpack_as", sizeof(ConvertArguments), move_as<false>},
    {"roda_cast", sizeof(CastArguments), cast},
    {"roda_reduce", sizeof(ReduceArguments), reduce},
};

}  // namespace

const Kernel* find_kernel(const std::string& name) {
#ifdef RODA_CUDA_HEADERS
  const char* wanted = std::getenv("RODA_CUDA_DOUBLE_KERNELS");
  if (wanted != nullptr && std::strcmp(wanted, "source") == 0) return find_source_kernel(name);
#endif
  for (const Kernel& kernel : kKernels) {
    if (name == kernel.name) return &kernel;
  }
  return nullptr;
}

}  // namespace roda::cuda_double
