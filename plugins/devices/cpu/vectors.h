// Vectors as wide as the instruction set's, and 16-bit floats in them. Included by kernel_set.cc, under the same rules.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plugins/devices/cpu/half.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace roda::cpu {
namespace {

// 16-bit floats are worked on in whole vectors of floats: left to itself the compiler converts them one by one.
#if defined(__AVX512F__)
constexpr std::size_t kLanes = 16;
#elif defined(__AVX2__)
constexpr std::size_t kLanes = 8;
#else
constexpr std::size_t kLanes = 4;
#endif
typedef float Floats __attribute__((vector_size(kLanes * 4)));
typedef std::uint32_t Words __attribute__((vector_size(kLanes * 4)));
typedef std::uint16_t Halves __attribute__((vector_size(kLanes * 2)));

template <typename Vector, typename Element>
Vector load_vector(const Element* from) {
  Vector vector;
  __builtin_memcpy(&vector, from, sizeof vector);
  return vector;
}

template <typename Vector, typename Element>
void store_vector(Element* to, Vector vector) {
  __builtin_memcpy(to, &vector, sizeof vector);
}

#if defined(__F16C__)
// Clang would turn comparisons of converted values into comparisons of halves, one by one.
inline Floats opaque(Floats values) {
#if defined(__clang__)
  asm("" : "+v"(values));
#endif
  return values;
}
#endif

struct BFloat16 {
  static float widen(std::uint16_t half) { return float_from_bf16(half); }
  static std::uint16_t narrow(float value) { return bf16_from_float(value); }

  static Floats widen(Halves halves) {
    return __builtin_bit_cast(Floats, __builtin_convertvector(halves, Words) << 16);
  }
  static Halves narrow(Floats values) { return __builtin_convertvector(bf16_words<Words>(values), Halves); }
};

struct Float16 {
  static float widen(std::uint16_t half) { return float_from_f16(half); }
  static std::uint16_t narrow(float value) { return f16_from_float(value); }

#if defined(__AVX512F__)
  static Floats widen(Halves halves) {
    return opaque(__builtin_bit_cast(Floats, _mm512_maskz_cvtph_ps(0xffff, __builtin_bit_cast(__m256i, halves))));
  }
  static Halves narrow(Floats values) {
    return __builtin_bit_cast(
        Halves, _mm512_maskz_cvtps_ph(0xffff, __builtin_bit_cast(__m512, values), _MM_FROUND_TO_NEAREST_INT));
  }
#elif defined(__F16C__)
  static Floats widen(Halves halves) {
    return opaque(__builtin_bit_cast(Floats, _mm256_cvtph_ps(__builtin_bit_cast(__m128i, halves))));
  }
  static Halves narrow(Floats values) {
    return __builtin_bit_cast(Halves, _mm256_cvtps_ph(__builtin_bit_cast(__m256, values), _MM_FROUND_TO_NEAREST_INT));
  }
#else
  static Floats widen(Halves halves) { return f16_floats<Floats>(__builtin_convertvector(halves, Words)); }
  static Halves narrow(Floats values) { return __builtin_convertvector(f16_words<Words>(values), Halves); }
#endif
};

template <typename Half>
void widen_all(float* to, const std::uint16_t* from, std::size_t count) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store_vector(to + i, Half::widen(load_vector<Halves>(from + i)));
  for (; i < count; ++i) to[i] = Half::widen(from[i]);
}

template <typename Half>
void narrow_all(std::uint16_t* to, const float* from, std::size_t count) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store_vector(to + i, Half::narrow(load_vector<Floats>(from + i)));
  for (; i < count; ++i) to[i] = Half::narrow(from[i]);
}

}  // namespace
}  // namespace roda::cpu
