// Numbers of any dtype as doubles: what the kernels are compared with.
#pragma once

#include <roda/abi/types.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "plugins/devices/cpu/half.h"

namespace roda::cpu {

// To float, but inexact results get an odd last bit: rounding them once more to 16 bits is then as if done in one step.
inline float float_to_odd(double value) {
  float nearest = static_cast<float>(value);
  std::uint32_t bits = bits_of(nearest);
  double back = static_cast<double>(nearest);
  if (back == value || value != value || (bits & 0x7fffffffu) == 0x7f800000u) return nearest;
  bool away = (back < 0 ? -back : back) > (value < 0 ? -value : value);
  return float_of((bits - (away ? 1u : 0u)) | 1u);
}

inline bool is_float(int dtype) {
  return dtype == RODA_FLOAT16 || dtype == RODA_BFLOAT16 || dtype == RODA_FLOAT32 || dtype == RODA_FLOAT64;
}

template <typename T>
double load_as(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}

template <typename T>
void store_as(void* at, double value) {
  T converted = static_cast<T>(value);
  std::memcpy(at, &converted, sizeof converted);
}

inline double load(int dtype, const void* at) {
  switch (dtype) {
    case RODA_UINT8:
      return load_as<std::uint8_t>(at);
    case RODA_INT8:
      return load_as<std::int8_t>(at);
    case RODA_UINT16:
      return load_as<std::uint16_t>(at);
    case RODA_INT16:
      return load_as<std::int16_t>(at);
    case RODA_INT32:
      return load_as<std::int32_t>(at);
    case RODA_INT64:
      return load_as<std::int64_t>(at);
    case RODA_FLOAT16:
      return float_from_f16(static_cast<std::uint16_t>(load_as<std::uint16_t>(at)));
    case RODA_BFLOAT16:
      return float_from_bf16(static_cast<std::uint16_t>(load_as<std::uint16_t>(at)));
    case RODA_FLOAT32:
      return load_as<float>(at);
    case RODA_FLOAT64:
      return load_as<double>(at);
    default:
      return load_as<std::uint8_t>(at) != 0;
  }
}

// Exactly representable values only, but for 16-bit floats, which round.
inline void store(int dtype, void* at, double value) {
  switch (dtype) {
    case RODA_UINT8:
      return store_as<std::uint8_t>(at, value);
    case RODA_INT8:
      return store_as<std::int8_t>(at, value);
    case RODA_UINT16:
      return store_as<std::uint16_t>(at, value);
    case RODA_INT16:
      return store_as<std::int16_t>(at, value);
    case RODA_INT32:
      return store_as<std::int32_t>(at, value);
    case RODA_INT64:
      return store_as<std::int64_t>(at, value);
    case RODA_FLOAT16:
      return store_as<std::uint16_t>(at, f16_from_float(float_to_odd(value)));
    case RODA_BFLOAT16:
      return store_as<std::uint16_t>(at, bf16_from_float(float_to_odd(value)));
    case RODA_FLOAT32:
      return store_as<float>(at, value);
    case RODA_FLOAT64:
      return store_as<double>(at, value);
    default:
      return store_as<std::uint8_t>(at, value != 0 ? 1 : 0);
  }
}

// The same double, or both NaN; zeros of either sign are one.
inline bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// Small enough that products of nine stay exact in every dtype but the 16-bit floats.
inline double small_value(int dtype, std::mt19937& random) {
  int value = std::uniform_int_distribution<int>(0, 2)(random);
  if (dtype == RODA_BOOL) return value > 0;
  bool is_signed = dtype != RODA_UINT8 && dtype != RODA_UINT16;
  if (is_signed && random() % 2 == 0) value = -value;
  return is_float(dtype) ? value * 0.5 : value;
}

}  // namespace roda::cpu
