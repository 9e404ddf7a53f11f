// 16-bit floats in plain integer arithmetic, round to nearest even, without branches so that loops over it vectorise.
// Everything is static: files of different instruction sets include this, and must not share one copy.
#pragma once

#include <cstdint>

namespace roda::cpu {

static inline std::uint32_t bits_of(float value) { return __builtin_bit_cast(std::uint32_t, value); }
static inline float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

static inline float float_from_bf16(std::uint16_t half) { return float_of(static_cast<std::uint32_t>(half) << 16); }

// NaNs stay NaNs (quiet); overflow rounds to infinity.
static inline std::uint16_t bf16_from_float(float value) {
  std::uint32_t bits = bits_of(value);
  std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  std::uint32_t nan = (bits >> 16) | 0x40u;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

static inline float float_from_f16(std::uint16_t half) {
  std::uint32_t sign = (half & 0x8000u) << 16;
  std::uint32_t rest = half & 0x7fffu;
  // Subnormals: an integer multiple of 2^-24, exact in float.
  std::uint32_t small = bits_of(static_cast<float>(static_cast<std::int32_t>(rest)) * 0x1p-24f);
  std::uint32_t normal = (rest << 13) + (112u << 23);
  std::uint32_t special = (rest << 13) | 0x7f800000u | (rest > 0x7c00u ? 0x400000u : 0u);  // infinity, quiet NaN
  std::uint32_t magnitude = rest < 0x400u ? small : rest < 0x7c00u ? normal : special;
  return float_of(sign | magnitude);
}

static inline std::uint16_t f16_from_float(float value) {
  std::uint32_t bits = bits_of(value);
  std::uint32_t sign = (bits >> 16) & 0x8000u;
  std::uint32_t rest = bits & 0x7fffffffu;
  // Below 2^-14: adding 0.5 moves the wanted bits to the end of the mantissa, and the addition rounds.
  std::uint32_t small = bits_of(float_of(rest < 0x38800000u ? rest : 0u) + 0.5f) - 0x3f000000u;
  std::uint32_t normal = (rest - (112u << 23) + 0xfffu + ((rest >> 13) & 1u)) >> 13;
  std::uint32_t nan = ((rest >> 13) & 0x3ffu) | 0x7e00u;
  std::uint32_t large = rest > 0x7f800000u ? nan : 0x7c00u;
  std::uint32_t magnitude = rest < 0x38800000u ? small : rest < 0x477ff000u ? normal : large;
  return static_cast<std::uint16_t>(sign | magnitude);
}

}  // namespace roda::cpu
