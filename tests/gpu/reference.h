// What the kernels must compute, by way of long double: slow, plain, and sharing nothing with them.
#pragma once

#include <roda/abi/types.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace roda::gpu_test {

// A number of any dtype: integers exactly, floats exactly, NaN and infinities as such.
long double load(int dtype, const char* at);
// Rounds to nearest even for floats; integers are truncated, saturated, NaN is 0.
void store(int dtype, char* at, long double value);

bool is_float(int dtype);

// The rules of <roda/abi/device.h>, for one element.
void reduce_one(int dtype, int op, char* to, const char* a, const char* b);
void scale_one(int dtype, char* to, const char* from, double factor);

// `count` elements of random bits, so with NaNs and infinities; for bool, bytes of which many are 0.
std::vector<char> random_elements(int dtype, std::size_t count, std::mt19937_64& random);
// The index of the first element that differs, or -1. Any NaN equals any, and any true bool.
std::ptrdiff_t first_difference(int dtype, const std::vector<char>& a, const std::vector<char>& b);

}  // namespace roda::gpu_test
