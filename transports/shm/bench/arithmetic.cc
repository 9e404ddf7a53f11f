#include "transports/shm/bench/arithmetic.h"

#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#if defined(__x86_64__) && !defined(__clang__)
#define RODA_CLONES __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#define RODA_INDEPENDENT _Pragma("GCC ivdep")
#else
#define RODA_CLONES
#define RODA_INDEPENDENT
#endif

namespace roda::shm_bench {

RODA_CLONES void add(float* to, const float* from, std::size_t n) {
  RODA_INDEPENDENT
  for (std::size_t i = 0; i < n; ++i) to[i] += from[i];
}

RODA_CLONES void add_both(float* to, float* copy, const float* from, std::size_t n) {
  RODA_INDEPENDENT
  for (std::size_t i = 0; i < n; ++i) {
    const float sum = to[i] + from[i];
    to[i] = sum;
    copy[i] = sum;
  }
}

#if defined(__SSE2__)

void add_streaming(float* to, float* a, const float* from, std::size_t n) {
  for (std::size_t i = 0; i < n; i += 4) {
    const __m128 sum = _mm_add_ps(_mm_loadu_ps(a + i), _mm_loadu_ps(from + i));
    _mm_storeu_ps(a + i, sum);
    _mm_stream_ps(to + i, sum);
  }
  _mm_sfence();
}

void copy_streaming(float* to, const float* from, std::size_t n) {
  for (std::size_t i = 0; i < n; i += 4) _mm_stream_ps(to + i, _mm_loadu_ps(from + i));
  _mm_sfence();
}

#else

void add_streaming(float* to, float* a, const float* from, std::size_t n) { add_both(a, to, from, n); }
void copy_streaming(float* to, const float* from, std::size_t n) { std::memcpy(to, from, n * sizeof(float)); }

#endif

}  // namespace roda::shm_bench
