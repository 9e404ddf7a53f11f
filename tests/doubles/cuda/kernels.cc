#include "tests/doubles/cuda/kernels.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "core/launch/average.h"
#include "plugins/devices/cpu/cpu_device.h"
#include "plugins/devices/cuda/kernel_arguments.h"
#include "tests/doubles/cuda/memory.h"

namespace roda::cuda_double {
namespace {

using cuda_device::AverageArguments;
using cuda_device::PackArguments;
using cuda_device::PackScaledArguments;
using cuda_device::ReduceArguments;
using cuda_device::ScaleArguments;
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

template <bool kPacks>
void move_scaled(unsigned blocks, unsigned, const void* argument) {
  const auto& arguments = *static_cast<const PackScaledArguments*>(argument);
  const std::size_t width = roda_dtype_size(arguments.dtype);
  for_each_block(blocks, arguments, cuda_device::kBlockElements, [&](const Segment& segment, Word first, Word count) {
    char* buffer = at(arguments.buffer + segment.offset + first * width);
    char* tensor = at(segment.tensor + first * width);
    char* to = kPacks ? buffer : tensor;
    std::memcpy(to, kPacks ? tensor : buffer, count * width);
    roda_cpu_device()->scale(to, count, arguments.dtype, arguments.factor, nullptr, nullptr);
  });
}

void scale(unsigned, unsigned, const void* argument) {
  const auto& arguments = *static_cast<const ScaleArguments*>(argument);
  roda_cpu_device()->scale(at(arguments.data), arguments.count, arguments.dtype, arguments.factor, nullptr, nullptr);
}

void reduce(unsigned, unsigned, const void* argument) {
  const auto& arguments = *static_cast<const ReduceArguments*>(argument);
  roda_cpu_device()->reduce(at(arguments.to), at(arguments.a), at(arguments.b), arguments.count, arguments.dtype,
                            arguments.op, nullptr, nullptr);
}

void widen(unsigned, unsigned, const void* argument) {
  const auto& arguments = *static_cast<const AverageArguments*>(argument);
  engine::spread(at(arguments.sums), at(arguments.values), arguments.count, arguments.dtype, arguments.members);
}

void average(unsigned, unsigned, const void* argument) {
  const auto& arguments = *static_cast<const AverageArguments*>(argument);
  engine::average(at(arguments.values), at(arguments.sums), arguments.count, arguments.dtype, arguments.members,
                  arguments.postscale);
}

// What the table says must be right before anybody reads what it names.
template <bool kPacks, typename Arguments>
bool touch_segments(const Arguments& arguments, std::size_t width) {
  const auto* segments = reinterpret_cast<const Segment*>(at(arguments.segments));
  if (!cuda_double::touch(segments, arguments.count * sizeof(Segment), false, "")) return false;
  bool are_there = true;
  for (unsigned i = 0; i < arguments.count; ++i) {
    const std::size_t bytes = segments[i].length * width;
    are_there = cuda_double::touch(at(segments[i].tensor), bytes, !kPacks, "") && are_there;
    are_there = cuda_double::touch(at(arguments.buffer + segments[i].offset), bytes, kPacks, "") && are_there;
  }
  return are_there;
}

template <bool kPacks>
bool touch_moved(const void* argument) {
  return touch_segments<kPacks>(*static_cast<const PackArguments*>(argument), 1);
}

template <bool kPacks>
bool touch_scaled(const void* argument) {
  const auto& arguments = *static_cast<const PackScaledArguments*>(argument);
  return touch_segments<kPacks>(arguments, roda_dtype_size(arguments.dtype));
}

bool touch_scale(const void* argument) {
  const auto& arguments = *static_cast<const ScaleArguments*>(argument);
  return cuda_double::touch(at(arguments.data), arguments.count * roda_dtype_size(arguments.dtype), true, "");
}

bool touch_reduce(const void* argument) {
  const auto& arguments = *static_cast<const ReduceArguments*>(argument);
  const std::size_t bytes = arguments.count * roda_dtype_size(arguments.dtype);
  return cuda_double::touch(at(arguments.a), bytes, false, "") &&
         cuda_double::touch(at(arguments.b), bytes, false, "") && cuda_double::touch(at(arguments.to), bytes, true, "");
}

template <bool kWidens>
bool touch_average(const void* argument) {
  const auto& arguments = *static_cast<const AverageArguments*>(argument);
  const int sums = engine::sum_dtype(arguments.dtype, arguments.members);
  const std::size_t width = engine::sum_width(arguments.dtype) * roda_dtype_size(sums);
  const std::size_t bytes = arguments.count * roda_dtype_size(arguments.dtype);
  return cuda_double::touch(at(arguments.sums), arguments.count * width, kWidens, "") &&
         cuda_double::touch(at(arguments.values), bytes, !kWidens, "");
}

Kernel kKernels[] = {
    {"roda_pack", sizeof(PackArguments), move<true>, touch_moved<true>},
    {"roda_unpack", sizeof(PackArguments), move<false>, touch_moved<false>},
    {"roda_pack_scaled", sizeof(PackScaledArguments), move_scaled<true>, touch_scaled<true>},
    {"roda_unpack_scaled", sizeof(PackScaledArguments), move_scaled<false>, touch_scaled<false>},
    {"roda_scale", sizeof(ScaleArguments), scale, touch_scale},
    {"roda_reduce", sizeof(ReduceArguments), reduce, touch_reduce},
    {"roda_widen", sizeof(AverageArguments), widen, touch_average<true>},
    {"roda_average", sizeof(AverageArguments), average, touch_average<false>},
};

}  // namespace

const Kernel* find_kernel(const std::string& name) {
  for (Kernel& kernel : kKernels) {
    if (name != kernel.name) continue;
#ifdef RODA_CUDA_HEADERS
    const char* wanted = std::getenv("RODA_CUDA_DOUBLE_KERNELS");
    if (wanted != nullptr && std::strcmp(wanted, "source") == 0) kernel.run = find_source_kernel(name);
#endif
    return &kernel;
  }
  return nullptr;
}

}  // namespace roda::cuda_double
