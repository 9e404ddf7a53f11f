// Host memory as a device, and the kernels that a C++ caller may use without the C table.
#pragma once

#include <roda/abi/device.h>

#include <cstddef>
#include <cstdint>

namespace roda::cpu {

// destination[i] = sources[0][i] (op) ... (op) sources[n - 1][i] in one pass over memory. As roda_device::reduce
// otherwise; 16-bit floats are rounded once, at the end. The destination may be one of the sources exactly.
// RODA_ERR_UNSUPPORTED for a dtype/op pair without meaning. Any thread.
std::int32_t reduce_many(void* destination, const void* const* sources, int n, std::size_t count, std::int32_t dtype,
                         std::int32_t op);

// Adasum of two vectors, pair by pair (see core/execute/adasum): sums[0] += a.b, sums[1] += a.a, sums[2] += b.b in
// double, the same bits on every processor. False: the dtype is no floating-point one. Any thread.
bool adasum_dots(const void* a, const void* b, std::size_t count, std::int32_t dtype, double* sums);
// to[i] = weight_a * a[i] + weight_b * b[i], computed in double; `to` may be a or b.
bool adasum_weigh(void* to, const void* a, const void* b, std::size_t count, std::int32_t dtype, double weight_a,
                  double weight_b);

// A message in the wire format, RODA_WIRE_NONE excepted: roda_wire_bytes(format, count) of them, equal on every
// processor. `first`: the number of values[0] among those that the seed is for, which stochastic formats draw by.
void encode(std::int32_t format, void* message, const float* values, std::size_t count, std::uint64_t first,
            std::uint64_t seed);
// The same with error feedback: residual[i], what messages lost of the element before, is added, and becomes what this
// one loses. No more is added to a block than `share` of its largest value's magnitude: after a step of values that
// were larger by far, its losses would be wrong for this one, and are dropped. A block of zeros goes as such and keeps
// what it has. What is no number leaves nothing behind.
void encode_fed(std::int32_t format, void* message, const float* values, float* residual, float share,
                std::size_t count, std::uint64_t first, std::uint64_t seed);
// to[i] = local[i] + what the message holds; that alone where `local` is null. `to` may be `local`.
void decode(std::int32_t format, float* to, const float* local, const void* message, std::size_t count);

}  // namespace roda::cpu

// Lives as long as the process. Streams are NULL. Memory that alloc hands out is zeroed by nobody, aligned to 64 bytes,
// and from 2 MiB on to huge pages, which are asked for.
const roda_device* roda_cpu_device(void);
