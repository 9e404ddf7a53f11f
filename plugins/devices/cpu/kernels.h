// The arithmetic of the CPU device, once per instruction set, chosen when first used.
//
// Pure functions over host memory: any thread, no alignment needed, no allocation, no errors.
#pragma once

#include <roda/abi/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace roda::cpu {

// destination[i] = sources[0][i] (op) ... (op) sources[n - 1][i], n >= 1; from left to right. The destination may be
// one of the sources exactly, not overlap one otherwise. 16-bit floats are summed up in float and rounded once.
// min and max hand a NaN on, whichever operand it is. Integers wrap around.
using ReduceFunction = void (*)(void* destination, const void* const* sources, int n, std::size_t count);

// data[i] *= factor: integers by way of double, truncated toward zero, out of range saturates; 16- and 32-bit floats
// with a float factor; bool is the truth of the truncated product.
using ScaleFunction = void (*)(void* data, std::size_t count, double factor);

// Adasum, of two vectors: sums[0] += a.b, sums[1] += a.a, sums[2] += b.b, all in double.
using DotsFunction = void (*)(const void* a, const void* b, std::size_t count, double* sums);

// to[i] = weight_a * a[i] + weight_b * b[i] in double, rounded once (by way of float for 16-bit floats). `to` may be a
// or b.
using WeighFunction = void (*)(void* to, const void* a, const void* b, std::size_t count, double weight_a,
                               double weight_b);

// A message in a format of roda_wire_formats: roda_wire_bytes(format, count) of them. The bytes are the same on every
// processor. Of a stochastic format, how an element is rounded follows from `seed` and its number, which is `first` for
// values[0]: not from where a message begins.
using EncodeFunction = void (*)(void* message, const float* values, std::size_t count, std::uint64_t first,
                                std::uint64_t seed);
using EncodeFedFunction = void (*)(void* message, const float* values, float* residual, float share, std::size_t count,
                                   std::uint64_t first, std::uint64_t seed);
// to[i] = local[i] + what the message holds, or that alone where `local` is null. `to` may be `local`.
using DecodeFunction = void (*)(float* to, const float* local, const void* message, std::size_t count);

struct Kernels {
  const char* isa;
  ReduceFunction reduce[RODA_DTYPE_COUNT][RODA_REDUCE_OP_COUNT];  // null where the op has no meaning here
  ScaleFunction scale[RODA_DTYPE_COUNT];
  DotsFunction dots[RODA_DTYPE_COUNT];            // floating point alone, null for others
  WeighFunction weigh[RODA_DTYPE_COUNT];          // likewise
  EncodeFunction encode[RODA_WIRE_FORMAT_COUNT];  // null: RODA_WIRE_NONE
  EncodeFedFunction encode_fed[RODA_WIRE_FORMAT_COUNT];
  DecodeFunction decode[RODA_WIRE_FORMAT_COUNT];
};

// The best set that this processor runs.
const Kernels& kernels();

// All sets that it runs, the plainest first; for tests.
std::vector<const Kernels*> usable_kernels();

// Defined where the compiler can make them; used through the two functions above.
const Kernels& baseline_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();

}  // namespace roda::cpu
