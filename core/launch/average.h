// Averages whose sum may leave the dtype's range though the average does not.
//
// Whole numbers are summed up in a wider type: 8 and 16 bits in 32 (in 64 from 2^15 ranks on), 32 in 64.
// A 64-bit one is two numbers, its quotient by the number of ranks and the rest, side by side: neither sum leaves 64
// bits, and together they give the average to the last digit.
//
// float16 is multiplied by a power of two before the sum: nothing is lost but of values that are subnormal after that.
// float32, float64 and bfloat16 are summed up as they are.
//
// These functions are for host memory; a device has its own, roda_device::widen and average. Pure; any thread.
#pragma once

#include <cstddef>

namespace roda::engine {

// The dtype that an average of so many ranks' values is summed up in; the dtype itself for floating point.
int sum_dtype(int dtype, int members);
// Numbers of that for each value.
std::size_t sum_width(int dtype);

// `values`, which are whole numbers, as what is to be summed up.
void spread(void* sums, const void* values, std::size_t count, int dtype, int members);
// Sums over `members` ranks back into averages times `postscale`: truncated toward zero, by way of double where
// `postscale` is not 1, saturated.
void average(void* values, const void* sums, std::size_t count, int dtype, int members, double postscale);

// The factor of the dtype's values before they are summed up for an average: 1, or a power of two.
double factor_before(int dtype, int members);

}  // namespace roda::engine
