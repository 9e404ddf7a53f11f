// The loops that the benchmark times: the transport must not see the device kernels, and these need float32 only.
#pragma once

#include <cstddef>

namespace roda::shm_bench {

// to[i] += from[i]
void add(float* to, const float* from, std::size_t n);
// to[i] = copy[i] = to[i] + from[i]
void add_both(float* to, float* copy, const float* from, std::size_t n);
// to[i] = a[i] = a[i] + from[i], `to` streamed past the cache
void add_streaming(float* to, float* a, const float* from, std::size_t n);
void copy_streaming(float* to, const float* from, std::size_t n);

}  // namespace roda::shm_bench
