// 16-bit floats in plain integer arithmetic, round to nearest even, without branches so that loops over it vectorise:
// of one number, or of a vector of them (GCC's vector types). Everything is static: files of different instruction sets
// include this, and must not share one copy.
#pragma once

#include <cstdint>
#include <type_traits>

namespace roda::cpu {

static inline std::uint32_t bits_of(float value) { return __builtin_bit_cast(std::uint32_t, value); }
static inline float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

// In what follows a `Words` is std::uint32_t or a vector of it, with a half in the low bits of each; `Floats` the same
// of float. By reference: vectors wider than the processor's must not cross a call by value.

// NaNs stay NaNs (quiet); overflow rounds to infinity.
template <typename Words, typename Floats>
static inline Words bf16_words(const Floats& values) {
  const Words bits = __builtin_bit_cast(Words, values);
  const Words rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const Words nan = (bits >> 16) | 0x40u;
  return values != values ? nan : rounded;
}

template <typename Floats, typename Words>
static inline Floats f16_floats(const Words& halves) {
  const Words sign = (halves & 0x8000u) << 16;
  const Words rest = halves & 0x7fffu;
  // Subnormals: an integer multiple of 2^-24, exact in float.
  Floats small;
  if constexpr (std::is_same_v<Floats, float>) {
    small = static_cast<float>(static_cast<std::int32_t>(rest)) * 0x1p-24f;
  } else {
    small = __builtin_convertvector(rest, Floats) * 0x1p-24f;
  }
  const Words normal = (rest << 13) + (112u << 23);
  const Words special =
      (rest << 13) | (rest > 0x7c00u ? Words{} + 0x7fc00000u : Words{} + 0x7f800000u);  // NaN, infinity
  const Words magnitude = rest < 0x400u ? __builtin_bit_cast(Words, small) : rest < 0x7c00u ? normal : special;
  return __builtin_bit_cast(Floats, sign | magnitude);
}

template <typename Words, typename Floats>
static inline Words f16_words(const Floats& values) {
  const Words bits = __builtin_bit_cast(Words, values);
  const Words sign = (bits >> 16) & 0x8000u;
  const Words rest = bits & 0x7fffffffu;
  // Below 2^-14: adding 0.5 moves the wanted bits to the end of the mantissa, and the addition rounds.
  const Words tiny = rest < 0x38800000u ? rest : Words{};
  const Words small = __builtin_bit_cast(Words, __builtin_bit_cast(Floats, tiny) + 0.5f) - 0x3f000000u;
  const Words normal = (rest - (112u << 23) + 0xfffu + ((rest >> 13) & 1u)) >> 13;
  const Words nan = ((rest >> 13) & 0x3ffu) | 0x7e00u;
  const Words large = rest > 0x7f800000u ? nan : Words{} + 0x7c00u;
  const Words magnitude = rest < 0x38800000u ? small : rest < 0x477ff000u ? normal : large;
  return sign | magnitude;
}

static inline float float_from_bf16(std::uint16_t half) { return float_of(static_cast<std::uint32_t>(half) << 16); }
static inline std::uint16_t bf16_from_float(float value) {
  return static_cast<std::uint16_t>(bf16_words<std::uint32_t>(value));
}
static inline float float_from_f16(std::uint16_t half) { return f16_floats<float>(std::uint32_t{half}); }
static inline std::uint16_t f16_from_float(float value) {
  return static_cast<std::uint16_t>(f16_words<std::uint32_t>(value));
}

}  // namespace roda::cpu
