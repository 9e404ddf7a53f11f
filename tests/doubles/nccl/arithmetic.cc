#include "tests/doubles/nccl/arithmetic.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "transports/nccl/library.h"

namespace roda::nccl_double {
namespace {

float float_of_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 31) return mantissa != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
}

std::uint16_t half_of_float(float value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return 0x7e00;
  if (magnitude >= 65520.0f) return sign | 0x7c00;
  const int exponent = magnitude < 0x1p-14f ? -14 : std::ilogb(magnitude);
  const auto steps = static_cast<unsigned>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  // Subnormal: the steps themselves; else the leading one is counted by the exponent.
  const unsigned bits = magnitude < 0x1p-14f ? steps : (static_cast<unsigned>(exponent + 14) << 10) + steps;
  return static_cast<std::uint16_t>(sign | bits);
}

float float_of_bfloat(std::uint16_t bits) {
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

std::uint16_t bfloat_of_float(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

template <typename T>
T apply(T a, T b, int op) {
  switch (op) {
    case nccl::kProd:
      return static_cast<T>(a * b);
    case nccl::kMax:
      return std::max(a, b);
    case nccl::kMin:
      return std::min(a, b);
    default:
      return static_cast<T>(a + b);
  }
}

template <typename T>
void change(char* to, std::size_t count, const char* from, int op) {
  for (std::size_t i = 0; i < count; ++i) {
    T a, b;
    std::memcpy(&a, to + i * sizeof(T), sizeof(T));
    std::memcpy(&b, from + i * sizeof(T), sizeof(T));
    a = apply(a, b, op);
    std::memcpy(to + i * sizeof(T), &a, sizeof(T));
  }
}

template <typename Change>
void change_halves(char* data, std::size_t count, int dtype, Change&& with) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, data + 2 * i, 2);
    const float value = with(i, dtype == nccl::kFloat16 ? float_of_half(bits) : float_of_bfloat(bits));
    bits = dtype == nccl::kFloat16 ? half_of_float(value) : bfloat_of_float(value);
    std::memcpy(data + 2 * i, &bits, 2);
  }
}

template <typename T>
void divide_all(char* data, std::size_t count, int ranks) {
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, data + i * sizeof(T), sizeof(T));
    value /= static_cast<T>(ranks);
    std::memcpy(data + i * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace

std::size_t size_of(int dtype) {
  constexpr std::size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return kSizes[dtype];
}

void combine(char* to, const char* from, std::size_t count, int dtype, int op) {
  switch (dtype) {
    case nccl::kInt8:
      return change<std::int8_t>(to, count, from, op);
    case nccl::kUint8:
      return change<std::uint8_t>(to, count, from, op);
    case nccl::kInt32:
      return change<std::int32_t>(to, count, from, op);
    case nccl::kInt64:
      return change<std::int64_t>(to, count, from, op);
    case nccl::kFloat32:
      return change<float>(to, count, from, op);
    case nccl::kFloat64:
      return change<double>(to, count, from, op);
    default:
      return change_halves(to, count, dtype, [&](std::size_t i, float a) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, from + 2 * i, 2);
        return apply(a, dtype == nccl::kFloat16 ? float_of_half(bits) : float_of_bfloat(bits), op);
      });
  }
}

void divide(char* data, std::size_t count, int dtype, int ranks) {
  if (dtype == nccl::kFloat32) return divide_all<float>(data, count, ranks);
  if (dtype == nccl::kFloat64) return divide_all<double>(data, count, ranks);
  change_halves(data, count, dtype, [ranks](std::size_t, float a) { return a / static_cast<float>(ranks); });
}

}  // namespace roda::nccl_double
