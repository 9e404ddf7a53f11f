#include "plugins/base/copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace roda::cpu {

void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes >= kStreamingBytes) return copy_streaming(to, from, bytes);
  if (bytes > 0) std::memcpy(to, from, bytes);
}

#if defined(__SSE2__)

void copy_streaming(void* to, const void* from, std::size_t bytes) {
  auto out = static_cast<char*>(to);
  auto in = static_cast<const char*>(from);
  std::size_t head = std::min(bytes, static_cast<std::size_t>(-reinterpret_cast<std::uintptr_t>(to) & 63));
  if (head > 0) std::memcpy(out, in, head);
  std::size_t i = head;
  for (; i + 64 <= bytes; i += 64) {
    __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
    __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i + 16));
    __m128i c = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i + 32));
    __m128i d = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i + 48));
    _mm_stream_si128(reinterpret_cast<__m128i*>(out + i), a);
    _mm_stream_si128(reinterpret_cast<__m128i*>(out + i + 16), b);
    _mm_stream_si128(reinterpret_cast<__m128i*>(out + i + 32), c);
    _mm_stream_si128(reinterpret_cast<__m128i*>(out + i + 48), d);
  }
  if (i < bytes) std::memcpy(out + i, in + i, bytes - i);
  _mm_sfence();  // streaming stores are not ordered by a later release store
}

#else

void copy_streaming(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

#endif

}  // namespace roda::cpu
