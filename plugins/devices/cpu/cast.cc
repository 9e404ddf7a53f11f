#include "plugins/devices/cpu/cast.h"

#include <roda/abi/types.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "plugins/devices/cpu/half.h"
#include "plugins/devices/cpu/kernels.h"

namespace roda::cpu {

namespace {

struct Float16 {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};
struct Bool {
  std::uint8_t byte;
};

template <int dtype>
struct TypeOf;
template <typename T>
struct Is {
  using type = T;
};
template <>
struct TypeOf<RODA_UINT8> : Is<std::uint8_t> {};
template <>
struct TypeOf<RODA_INT8> : Is<std::int8_t> {};
template <>
struct TypeOf<RODA_UINT16> : Is<std::uint16_t> {};
template <>
struct TypeOf<RODA_INT16> : Is<std::int16_t> {};
template <>
struct TypeOf<RODA_INT32> : Is<std::int32_t> {};
template <>
struct TypeOf<RODA_INT64> : Is<std::int64_t> {};
template <>
struct TypeOf<RODA_FLOAT16> : Is<Float16> {};
template <>
struct TypeOf<RODA_FLOAT32> : Is<float> {};
template <>
struct TypeOf<RODA_FLOAT64> : Is<double> {};
template <>
struct TypeOf<RODA_BOOL> : Is<Bool> {};
template <>
struct TypeOf<RODA_BFLOAT16> : Is<BFloat16> {};

// The value in a type that arithmetic knows.
float value_of(Float16 v) { return float_from_f16(v.bits); }
float value_of(BFloat16 v) { return float_from_bf16(v.bits); }
std::uint8_t value_of(Bool v) { return v.byte != 0; }
template <typename T>
T value_of(T v) {
  return v;
}

template <typename To, typename From>
To saturated(From value) {
  constexpr From high = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * 2;
  if (std::isnan(value)) return 0;
  if (value <= static_cast<From>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
  return value < high ? static_cast<To>(value) : std::numeric_limits<To>::max();
}

template <typename To, typename From>
To convert(From value) {
  if constexpr (std::is_same_v<To, Bool>) {
    return Bool{value != 0};
  } else if constexpr (std::is_same_v<To, Float16>) {
    return Float16{f16_from_float(float_to_odd(static_cast<double>(value)))};
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return BFloat16{bf16_from_float(float_to_odd(static_cast<double>(value)))};
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    return saturated<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

template <typename To, typename From>
void cast_all(void* to, const void* from, std::size_t count) {
  auto out = static_cast<To*>(to);
  auto in = static_cast<const From*>(from);
  for (std::size_t i = 0; i < count; ++i) out[i] = convert<To>(value_of(in[i]));
}

using CastFunction = void (*)(void*, const void*, std::size_t);

template <std::size_t... pair>
constexpr auto make_table(std::index_sequence<pair...>) {
  return std::array<CastFunction, sizeof...(pair)>{
      cast_all<typename TypeOf<pair / RODA_DTYPE_COUNT>::type, typename TypeOf<pair % RODA_DTYPE_COUNT>::type>...};
}

constexpr auto kTable = make_table(std::make_index_sequence<RODA_DTYPE_COUNT * RODA_DTYPE_COUNT>());

// The pairs that mixed-precision training lives on have vector code.
bool cast_fast(void* to, std::int32_t to_dtype, const void* from, std::int32_t from_dtype, std::size_t count) {
  auto half = static_cast<const std::uint16_t*>(from);
  auto single = static_cast<const float*>(from);
  const Kernels& k = kernels();
  if (to_dtype == RODA_FLOAT32 && from_dtype == RODA_FLOAT16) {
    k.float_from_f16(static_cast<float*>(to), half, count);
  } else if (to_dtype == RODA_FLOAT32 && from_dtype == RODA_BFLOAT16) {
    k.float_from_bf16(static_cast<float*>(to), half, count);
  } else if (to_dtype == RODA_FLOAT16 && from_dtype == RODA_FLOAT32) {
    k.f16_from_float(static_cast<std::uint16_t*>(to), single, count);
  } else if (to_dtype == RODA_BFLOAT16 && from_dtype == RODA_FLOAT32) {
    k.bf16_from_float(static_cast<std::uint16_t*>(to), single, count);
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool cast(void* to, std::int32_t to_dtype, const void* from, std::int32_t from_dtype, std::size_t count) {
  if (roda_dtype_size(to_dtype) == 0 || roda_dtype_size(from_dtype) == 0) return false;
  if (to_dtype == from_dtype) {
    if (count > 0) std::memmove(to, from, count * roda_dtype_size(to_dtype));
  } else if (!cast_fast(to, to_dtype, from, from_dtype, count)) {
    kTable[static_cast<std::size_t>(to_dtype * RODA_DTYPE_COUNT + from_dtype)](to, from, count);
  }
  return true;
}

}  // namespace roda::cpu
