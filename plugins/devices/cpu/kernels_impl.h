// The kernels as templates. Included by one source file per instruction set, which is compiled with that set's flags:
// everything here has internal linkage and nothing of the standard library's is called, so that no function compiled
// for a newer processor can end up in the program's common copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "plugins/devices/cpu/half.h"
#include "plugins/devices/cpu/kernels.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

// Iterations are independent, even when the destination is one of the sources.
#if defined(__clang__)
#define RODA_VECTORISE _Pragma("clang loop vectorize(assume_safety)")
#else
#define RODA_VECTORISE _Pragma("GCC ivdep")
#endif

namespace roda::cpu {
namespace {

struct Float16 {};
struct BFloat16 {};

// Integers in an unsigned type that is not promoted to int: wrapping is then defined.
template <typename T>
using Wrapping = std::conditional_t<(sizeof(T) < 4), std::uint32_t, std::make_unsigned_t<T>>;

struct Sum {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
    } else {
      return a + b;
    }
  }
};

struct Product {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
    } else {
      return a * b;
    }
  }
};

struct Min {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) return a < b ? a : b;
    return ((a < b) | (a != a)) ? a : b;
  }
};

struct Max {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) return a > b ? a : b;
    return ((a > b) | (a != a)) ? a : b;
  }
};

// For bool, stored in bytes of which any that isn't zero is true.
struct Or {
  template <typename T>
  static T apply(T a, T b) {
    return (a | b) != 0;
  }
};

struct And {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>((a != 0) & (b != 0));
  }
};

template <typename T, typename Op>
void reduce_two(T* to, const T* a, const T* b, std::size_t count) {
  RODA_VECTORISE
  for (std::size_t i = 0; i < count; ++i) to[i] = Op::template apply<T>(a[i], b[i]);
}

template <typename T, typename Op>
void reduce_three(T* to, const T* a, const T* b, const T* c, std::size_t count) {
  RODA_VECTORISE
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = Op::template apply<T>(Op::template apply<T>(a[i], b[i]), c[i]);
  }
}

template <typename T, typename Op>
void reduce_four(T* to, const T* a, const T* b, const T* c, const T* d, std::size_t count) {
  RODA_VECTORISE
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = Op::template apply<T>(Op::template apply<T>(Op::template apply<T>(a[i], b[i]), c[i]), d[i]);
  }
}

// Elements worked on at a time: small enough for the first-level cache.
constexpr std::size_t kTile = 1024;

// The first four sources in one pass, then three more per pass over a tile that is still in the cache. The tile is
// apart from the destination, which may be one of the sources still to come.
template <typename T, typename Op>
void reduce_tile(T* to, const T* const* from, int n, std::size_t offset, std::size_t count) {
  T tile[kTile];
  reduce_four<T, Op>(tile, from[0] + offset, from[1] + offset, from[2] + offset, from[3] + offset, count);
  int next = 4;
  for (; n - next > 3; next += 3) {
    reduce_four<T, Op>(tile, tile, from[next] + offset, from[next + 1] + offset, from[next + 2] + offset, count);
  }
  switch (n - next) {
    case 3:
      return reduce_four<T, Op>(to, tile, from[next] + offset, from[next + 1] + offset, from[next + 2] + offset, count);
    case 2:
      return reduce_three<T, Op>(to, tile, from[next] + offset, from[next + 1] + offset, count);
    default:
      return reduce_two<T, Op>(to, tile, from[next] + offset, count);
  }
}

template <typename T, typename Op>
void reduce_plain(void* destination, const void* const* sources, int n, std::size_t count) {
  T* to = static_cast<T*>(destination);
  auto from = reinterpret_cast<const T* const*>(sources);
  switch (n) {
    case 1:
      if (to != from[0]) __builtin_memmove(to, from[0], count * sizeof(T));
      return;
    case 2:
      return reduce_two<T, Op>(to, from[0], from[1], count);
    case 3:
      return reduce_three<T, Op>(to, from[0], from[1], from[2], count);
    case 4:
      return reduce_four<T, Op>(to, from[0], from[1], from[2], from[3], count);
    default:
      for (std::size_t done = 0; done < count; done += kTile) {
        reduce_tile<T, Op>(to + done, from, n, done, count - done < kTile ? count - done : kTile);
      }
  }
}

void float_from_bf16_all(float* to, const std::uint16_t* from, std::size_t count) {
  RODA_VECTORISE
  for (std::size_t i = 0; i < count; ++i) to[i] = float_from_bf16(from[i]);
}

void bf16_from_float_all(std::uint16_t* to, const float* from, std::size_t count) {
  RODA_VECTORISE
  for (std::size_t i = 0; i < count; ++i) to[i] = bf16_from_float(from[i]);
}

void float_from_f16_all(float* to, const std::uint16_t* from, std::size_t count) {
  std::size_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= count; i += 16) {
    _mm512_storeu_ps(to + i,
                     _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i))));
  }
#elif defined(__F16C__)
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  }
#endif
  RODA_VECTORISE
  for (std::size_t k = i; k < count; ++k) to[k] = float_from_f16(from[k]);
}

void f16_from_float_all(std::uint16_t* to, const float* from, std::size_t count) {
  std::size_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= count; i += 16) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i),
                        _mm512_maskz_cvtps_ph(0xffff, _mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  }
#elif defined(__F16C__)
  for (; i + 8 <= count; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  }
#endif
  RODA_VECTORISE
  for (std::size_t k = i; k < count; ++k) to[k] = f16_from_float(from[k]);
}

template <typename Half>
void widen(float* to, const std::uint16_t* from, std::size_t count) {
  if constexpr (std::is_same_v<Half, Float16>) return float_from_f16_all(to, from, count);
  return float_from_bf16_all(to, from, count);
}

template <typename Half>
void narrow(std::uint16_t* to, const float* from, std::size_t count) {
  if constexpr (std::is_same_v<Half, Float16>) return f16_from_float_all(to, from, count);
  return bf16_from_float_all(to, from, count);
}

template <typename Half, typename Op>
void reduce_half(void* destination, const void* const* sources, int n, std::size_t count) {
  auto to = static_cast<std::uint16_t*>(destination);
  auto from = reinterpret_cast<const std::uint16_t* const*>(sources);
  float total[kTile], next[kTile];
  for (std::size_t done = 0; done < count; done += kTile) {
    std::size_t part = count - done < kTile ? count - done : kTile;
    widen<Half>(total, from[0] + done, part);
    for (int k = 1; k < n; ++k) {
      widen<Half>(next, from[k] + done, part);
      reduce_two<float, Op>(total, total, next, part);
    }
    narrow<Half>(to + done, total, part);
  }
}

template <typename T>
T truncated(double value) {
  constexpr double low = static_cast<double>(std::numeric_limits<T>::min());
  // The first value past the range, a power of two and thus exact.
  constexpr double high = static_cast<double>(std::numeric_limits<T>::max() / 2 + 1) * 2;
  constexpr T least = std::numeric_limits<T>::min();
  constexpr T most = std::numeric_limits<T>::max();
  if (!(value > low)) return value == value ? least : T{0};
  return value < high ? static_cast<T>(value) : most;
}

template <typename T>
void scale_plain(void* data, std::size_t count, double factor) {
  T* values = static_cast<T*>(data);
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (std::is_integral_v<T>) {
      values[i] = truncated<T>(static_cast<double>(values[i]) * factor);
    } else {
      values[i] *= static_cast<T>(factor);
    }
  }
}

void scale_bool(void* data, std::size_t count, double factor) {
  auto values = static_cast<std::uint8_t*>(data);
  const bool kept = truncated<std::int64_t>(factor) != 0;
  for (std::size_t i = 0; i < count; ++i) values[i] = values[i] != 0 && kept;
}

template <typename Half>
void scale_half(void* data, std::size_t count, double factor) {
  auto values = static_cast<std::uint16_t*>(data);
  float tile[kTile];
  for (std::size_t done = 0; done < count; done += kTile) {
    std::size_t part = count - done < kTile ? count - done : kTile;
    widen<Half>(tile, values + done, part);
    scale_plain<float>(tile, part, factor);
    narrow<Half>(values + done, tile, part);
  }
}

template <typename T>
constexpr void fill_row(Kernels& table, int dtype) {
  table.reduce[dtype][RODA_SUM] = reduce_plain<T, Sum>;
  table.reduce[dtype][RODA_MIN] = reduce_plain<T, Min>;
  table.reduce[dtype][RODA_MAX] = reduce_plain<T, Max>;
  table.reduce[dtype][RODA_PRODUCT] = reduce_plain<T, Product>;
  table.scale[dtype] = scale_plain<T>;
}

constexpr void fill_bool_row(Kernels& table) {
  table.reduce[RODA_BOOL][RODA_SUM] = table.reduce[RODA_BOOL][RODA_MAX] = reduce_plain<std::uint8_t, Or>;
  table.reduce[RODA_BOOL][RODA_PRODUCT] = table.reduce[RODA_BOOL][RODA_MIN] = reduce_plain<std::uint8_t, And>;
  table.scale[RODA_BOOL] = scale_bool;
}

template <typename Half>
constexpr void fill_half_row(Kernels& table, int dtype) {
  table.reduce[dtype][RODA_SUM] = reduce_half<Half, Sum>;
  table.reduce[dtype][RODA_MIN] = reduce_half<Half, Min>;
  table.reduce[dtype][RODA_MAX] = reduce_half<Half, Max>;
  table.reduce[dtype][RODA_PRODUCT] = reduce_half<Half, Product>;
  table.scale[dtype] = scale_half<Half>;
}

constexpr Kernels make_kernels(const char* isa) {
  Kernels table{};
  table.isa = isa;
  fill_row<std::uint8_t>(table, RODA_UINT8);
  fill_row<std::int8_t>(table, RODA_INT8);
  fill_row<std::uint16_t>(table, RODA_UINT16);
  fill_row<std::int16_t>(table, RODA_INT16);
  fill_row<std::int32_t>(table, RODA_INT32);
  fill_row<std::int64_t>(table, RODA_INT64);
  fill_half_row<Float16>(table, RODA_FLOAT16);
  fill_row<float>(table, RODA_FLOAT32);
  fill_row<double>(table, RODA_FLOAT64);
  fill_bool_row(table);
  fill_half_row<BFloat16>(table, RODA_BFLOAT16);
  table.float_from_f16 = float_from_f16_all;
  table.f16_from_float = f16_from_float_all;
  table.float_from_bf16 = float_from_bf16_all;
  table.bf16_from_float = bf16_from_float_all;
  return table;
}

}  // namespace
}  // namespace roda::cpu
