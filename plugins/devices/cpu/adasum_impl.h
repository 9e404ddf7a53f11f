// The kernels of Adasum as templates. Included by kernel_set.cc, under the same rules.
//
// Sums are kept in eight doubles whatever the instruction set, element i in double i % 8, so that every processor comes
// to the same bits (the build forbids fused multiply-adds here).
#pragma once

#include <cstddef>
#include <cstdint>

#include "plugins/devices/cpu/kernels.h"

namespace roda::cpu {
namespace {

constexpr std::size_t kSums = 8;
// Halves of eight doubles: whole vectors of the widest set, several of the others.
typedef double Doubles __attribute__((vector_size(kSums * 8)));
typedef float EightFloats __attribute__((vector_size(kSums * 4)));

// By reference: vectors wider than the processor's must not cross a call by value.
inline void load(Doubles& values, const double* from) { __builtin_memcpy(&values, from, sizeof values); }

inline void load(Doubles& values, const float* from) {
  EightFloats narrow;
  __builtin_memcpy(&narrow, from, sizeof narrow);
  values = __builtin_convertvector(narrow, Doubles);
}

inline void store(double* to, const Doubles& values) { __builtin_memcpy(to, &values, sizeof values); }

inline void store(float* to, const Doubles& values) {
  const EightFloats narrow = __builtin_convertvector(values, EightFloats);
  __builtin_memcpy(to, &narrow, sizeof narrow);
}

// The three sums of a run of elements that have a type of the language.
struct DotSums {
  Doubles dot{}, first{}, second{};

  template <typename T>
  void add(const T* from_a, const T* from_b) {
    Doubles a, b;
    load(a, from_a);
    load(b, from_b);
    dot += a * b;
    first += a * a;
    second += b * b;
  }
  void put(double* sums) const {
    for (std::size_t i = 0; i < kSums; ++i) {
      sums[0] += dot[i];
      sums[1] += first[i];
      sums[2] += second[i];
    }
  }
};

template <typename T>
void add_dots(const T* a, const T* b, std::size_t count, DotSums* sums) {
  std::size_t i = 0;
  for (; i + kSums <= count; i += kSums) sums->add(a + i, b + i);
  T rest_a[kSums] = {}, rest_b[kSums] = {};
  for (std::size_t k = 0; i + k < count; ++k) {
    rest_a[k] = a[i + k];
    rest_b[k] = b[i + k];
  }
  sums->add(rest_a, rest_b);
}

template <typename T>
void dots_plain(const void* a, const void* b, std::size_t count, double* sums) {
  DotSums mine;
  add_dots(static_cast<const T*>(a), static_cast<const T*>(b), count, &mine);
  mine.put(sums);
}

template <typename T>
void weigh(T* to, const T* a, const T* b, std::size_t count, double weight_a, double weight_b) {
  std::size_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    Doubles first, second;
    load(first, a + i);
    load(second, b + i);
    store(to + i, first * weight_a + second * weight_b);
  }
  for (; i < count; ++i) {
    to[i] = static_cast<T>(static_cast<double>(a[i]) * weight_a + static_cast<double>(b[i]) * weight_b);
  }
}

template <typename T>
void weigh_plain(void* to, const void* a, const void* b, std::size_t count, double weight_a, double weight_b) {
  weigh(static_cast<T*>(to), static_cast<const T*>(a), static_cast<const T*>(b), count, weight_a, weight_b);
}

// 16-bit floats: tiles of them as floats. Their products are exact in float's double, and the sum is rounded once.
constexpr std::size_t kHalfTile = 512;
static_assert(kHalfTile % kSums == 0);

template <void (*Widen)(float*, const std::uint16_t*, std::size_t)>
void dots_half(const void* a, const void* b, std::size_t count, double* sums) {
  const auto first = static_cast<const std::uint16_t*>(a);
  const auto second = static_cast<const std::uint16_t*>(b);
  float wide_a[kHalfTile], wide_b[kHalfTile];
  DotSums mine;
  for (std::size_t done = 0; done < count; done += kHalfTile) {
    const std::size_t n = count - done < kHalfTile ? count - done : kHalfTile;
    Widen(wide_a, first + done, n);
    Widen(wide_b, second + done, n);
    add_dots(wide_a, wide_b, n, &mine);
  }
  mine.put(sums);
}

template <void (*Widen)(float*, const std::uint16_t*, std::size_t),
          void (*Narrow)(std::uint16_t*, const float*, std::size_t)>
void weigh_half(void* to, const void* a, const void* b, std::size_t count, double weight_a, double weight_b) {
  const auto result = static_cast<std::uint16_t*>(to);
  const auto first = static_cast<const std::uint16_t*>(a);
  const auto second = static_cast<const std::uint16_t*>(b);
  float wide_a[kHalfTile], wide_b[kHalfTile];
  for (std::size_t done = 0; done < count; done += kHalfTile) {
    const std::size_t n = count - done < kHalfTile ? count - done : kHalfTile;
    Widen(wide_a, first + done, n);
    Widen(wide_b, second + done, n);
    weigh(wide_a, wide_a, wide_b, n, weight_a, weight_b);
    Narrow(result + done, wide_a, n);
  }
}

}  // namespace
}  // namespace roda::cpu
