// The kernels of wire formats (roda_wire_formats) as templates. Included by kernel_set.cc, under the same rules.
//
// Whatever was decoded encodes to the same bytes again, so that ranks that pass data on change nothing: the element of
// the largest magnitude always gets the largest code, from which the same scale follows, and scales have so few
// significant bits that their products with codes are exact. (Divisions, too, are correctly rounded, and so exact.)
#pragma once

#include <cstddef>
#include <cstdint>

#include "plugins/devices/cpu/kernels.h"
#include "plugins/devices/cpu/vectors.h"

namespace roda::cpu {
namespace {

typedef std::int32_t Ints __attribute__((vector_size(kLanes * 4)));
typedef std::int8_t Bytes __attribute__((vector_size(kLanes)));
typedef std::uint8_t UnsignedBytes __attribute__((vector_size(kLanes)));
typedef std::int16_t Shorts __attribute__((vector_size(kLanes * 2)));

constexpr std::uint32_t kSign = 0x80000000u;
constexpr float kMostMagnitude = 3e38f;
constexpr float kLeastMagnitude = 0x1p-100f;

// In two steps, each of which the compilers know an instruction for; in one they go byte by byte.
template <typename Narrow, typename Middle>
inline Ints widened(const char* from) {
  return __builtin_convertvector(__builtin_convertvector(load_vector<Narrow>(from), Middle), Ints);
}

// The low byte of each.
inline void store_bytes(char* to, const Ints& values) {
  store_vector(to, __builtin_convertvector(__builtin_convertvector(values, Shorts), Bytes));
}

inline Ints magnitudes(const Floats& values) { return __builtin_bit_cast(Ints, values) & 0x7fffffff; }

// The bits of the largest magnitude of a block; NaNs count as larger than infinity.
template <std::size_t kBlock>
std::uint32_t largest_of(const float* values) {
  Ints most = magnitudes(load_vector<Floats>(values));
  for (std::size_t i = kLanes; i < kBlock; i += kLanes) {
    const Ints next = magnitudes(load_vector<Floats>(values + i));
    most = next > most ? next : most;
  }
  std::int32_t lanes[kLanes];
  store_vector(lanes, most);
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) lanes[i] = lanes[i] > lanes[i + half] ? lanes[i] : lanes[i + half];
  }
  return static_cast<std::uint32_t>(lanes[0]);
}

// A number below 2^16 for each element from `first` on, from its number and the seed alone.
inline Ints draw(std::uint64_t first, std::uint64_t seed) {
  Words x;
  for (std::size_t i = 0; i < kLanes; ++i) x[i] = static_cast<std::uint32_t>(i);
  x = (x + static_cast<std::uint32_t>(first)) * 0x9e3779b9u ^ static_cast<std::uint32_t>(seed);
  x = (x ^ (x >> 16)) * 0x85ebca6bu + static_cast<std::uint32_t>(seed >> 32);
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return __builtin_bit_cast(Ints, x >> 16);
}

// Blocks of codes -kMost..kMost times a scale whose last kDropped bits are zero.
template <std::size_t kBlock, int kMost, std::uint32_t kDropped, bool kStochastic>
struct WholeCodes {
  // Zero and NaN: all of the block becomes that.
  static float scale_of(std::uint32_t largest) {
    if (largest < bits_of(kLeastMagnitude)) return 0;
    const float nan = float_of(0x7fc00000u);
    if (largest > bits_of(kMostMagnitude)) return nan;
    constexpr std::uint32_t dropped = (1u << kDropped) - 1;
    const float scale = float_of((bits_of(float_of(largest) / kMost) + dropped) & ~dropped);
    return scale * kMost > kMostMagnitude ? nan : scale;
  }

  static Ints codes(const float* values, float scale, std::uint32_t largest, std::uint64_t first, std::uint64_t seed) {
    const Floats all = load_vector<Floats>(values);
    const Floats wanted = all / scale;
    // Adding that moves what is before the point to the end of the mantissa, and the addition rounds.
    const Ints nearest = __builtin_bit_cast(Ints, wanted + 0x1.8p23f) - 0x4b400000;
    if constexpr (!kStochastic) return nearest;
    const Floats rise = __builtin_convertvector(draw(first, seed), Floats) * 0x1p-16f;
    // Whole numbers stay what they are: their sum with a number of 16 bits behind the point is exact.
    const Ints drawn = __builtin_convertvector(wanted + static_cast<float>(kMost + 1) + rise, Ints) - (kMost + 1);
    return magnitudes(all) == static_cast<std::int32_t>(largest) ? nearest : drawn;
  }
};

template <bool kStochastic>
struct Int8 {
  using Codes = WholeCodes<256, 127, 8, kStochastic>;
  static constexpr std::size_t kBlock = 256;
  static constexpr std::size_t bytes(std::size_t count) { return 4 + count; }

  static void encode(char* message, const float* values, std::uint64_t first, std::uint64_t seed) {
    const std::uint32_t largest = largest_of<kBlock>(values);
    const float scale = Codes::scale_of(largest);
    __builtin_memcpy(message, &scale, 4);
    if (!(scale > 0)) return static_cast<void>(__builtin_memset(message + 4, 0, kBlock));
    for (std::size_t i = 0; i < kBlock; i += kLanes) {
      const Ints codes = Codes::codes(values + i, scale, largest, first + i, seed);
      store_bytes(message + 4 + i, codes);
    }
  }

  static void decode(const char* message, const auto& put) {
    float scale;
    __builtin_memcpy(&scale, message, 4);
    for (std::size_t i = 0; i < kBlock; i += kLanes) {
      const Ints codes = widened<Bytes, Shorts>(message + 4 + i);
      put(i, __builtin_convertvector(codes, Floats) * scale);
    }
  }
};

template <bool kStochastic>
struct Int4 {
  using Codes = WholeCodes<32, 7, 16, kStochastic>;
  static constexpr std::size_t kBlock = 32;
  static constexpr std::size_t bytes(std::size_t) { return 18; }

  static void encode(char* message, const float* values, std::uint64_t first, std::uint64_t seed) {
    const std::uint32_t largest = largest_of<kBlock>(values);
    const float scale = Codes::scale_of(largest);
    const auto high = static_cast<std::uint16_t>(bits_of(scale) >> 16);
    __builtin_memcpy(message, &high, 2);
    if (!(scale > 0)) return static_cast<void>(__builtin_memset(message + 2, 0, kBlock / 2));
    for (std::size_t i = 0; i < kBlock / 2; i += kLanes) {
      const Ints low = Codes::codes(values + i, scale, largest, first + i, seed) & 15;
      const Ints above = Codes::codes(values + 16 + i, scale, largest, first + 16 + i, seed) & 15;
      store_bytes(message + 2 + i, low | (above << 4));
    }
  }

  static void decode(const char* message, const auto& put) {
    std::uint16_t high;
    __builtin_memcpy(&high, message, 2);
    const float scale = float_from_bf16(high);
    for (std::size_t i = 0; i < kBlock / 2; i += kLanes) {
      const Ints codes = widened<UnsignedBytes, Halves>(message + 2 + i);
      put(i, __builtin_convertvector((codes << 28) >> 28, Floats) * scale);
      put(16 + i, __builtin_convertvector((codes << 24) >> 28, Floats) * scale);
    }
  }
};

struct Fp8 {
  static constexpr std::size_t kBlock = 256;
  static constexpr std::size_t bytes(std::size_t count) { return 4 + count; }

  // The power of two that brings the largest magnitude above 232 and not above 464: it rounds to 240 to 448.
  static float scale_of(std::uint32_t largest) {
    if (largest < bits_of(kLeastMagnitude)) return 0;
    if (largest > bits_of(kMostMagnitude)) return float_of(0x7fc00000u);
    const std::uint32_t above = (largest & 0x7fffffu) > 0x680000u ? 1 : 0;
    return float_of(((largest >> 23) - 8 + above) << 23);
  }

  static Words codes(const Floats& wanted) {
    const Words bits = __builtin_bit_cast(Words, wanted);
    const Words rest = bits & ~kSign;
    const Words tiny = rest < 0x3c800000u ? rest : Words{};  // below 2^-6: multiples of 2^-9
    const Words small = __builtin_bit_cast(Words, __builtin_bit_cast(Floats, tiny) + 0x1p14f) - 0x46800000u;
    const Words normal = (rest - (120u << 23) + 0x7ffffu + ((rest >> 20) & 1u)) >> 20;
    return ((bits >> 24) & 0x80u) | (rest < 0x3c800000u ? small : normal);
  }

  static void encode(char* message, const float* values, std::uint64_t, std::uint64_t) {
    const float scale = scale_of(largest_of<kBlock>(values));
    __builtin_memcpy(message, &scale, 4);
    if (!(scale > 0)) return static_cast<void>(__builtin_memset(message + 4, 0, kBlock));
    for (std::size_t i = 0; i < kBlock; i += kLanes) {
      store_bytes(message + 4 + i, __builtin_bit_cast(Ints, codes(load_vector<Floats>(values + i) / scale)));
    }
  }

  static void decode(const char* message, const auto& put) {
    float scale;
    __builtin_memcpy(&scale, message, 4);
    for (std::size_t i = 0; i < kBlock; i += kLanes) {
      const Words codes = __builtin_bit_cast(Words, widened<UnsignedBytes, Halves>(message + 4 + i));
      const Words rest = codes & 0x7fu;
      const Floats small = __builtin_convertvector(__builtin_bit_cast(Ints, rest), Floats) * 0x1p-9f;
      const Words normal = (rest << 20) + (120u << 23);
      const Words magnitude = rest < 8u ? __builtin_bit_cast(Words, small) : normal;
      put(i, __builtin_bit_cast(Floats, ((codes & 0x80u) << 24) | magnitude) * scale);
    }
  }
};

template <typename Half>
struct Halved {
  static constexpr std::size_t kBlock = kLanes;
  static constexpr std::size_t bytes(std::size_t count) { return 2 * count; }

  static void encode(char* message, const float* values, std::uint64_t, std::uint64_t) {
    store_vector(message, Half::narrow(load_vector<Floats>(values)));
  }
  static void decode(const char* message, const auto& put) { put(0, Half::widen(load_vector<Halves>(message))); }
};

struct DrawnBFloat16 : Halved<BFloat16> {
  static void encode(char* message, const float* values, std::uint64_t first, std::uint64_t seed) {
    const Floats all = load_vector<Floats>(values);
    const Words bits = __builtin_bit_cast(Words, all);
    const Words drawn = (bits + __builtin_bit_cast(Words, draw(first, seed))) >> 16;
    const Words special = (bits >> 16) | (all != all ? Words{} + 0x40u : Words{});
    const Words halves = (bits & 0x7f800000u) == 0x7f800000u ? special : drawn;
    store_vector(message, __builtin_convertvector(halves, Halves));
  }
};

template <typename Format>
void encode_all(void* to, const float* values, std::size_t count, std::uint64_t first, std::uint64_t seed) {
  auto message = static_cast<char*>(to);
  std::size_t done = 0;
  for (; done + Format::kBlock <= count; done += Format::kBlock, message += Format::bytes(Format::kBlock)) {
    Format::encode(message, values + done, first + done, seed);
  }
  if (done == count) return;
  float rest[Format::kBlock] = {};
  char last[Format::bytes(Format::kBlock)];
  __builtin_memcpy(rest, values + done, (count - done) * sizeof(float));
  Format::encode(last, rest, first + done, seed);
  __builtin_memcpy(message, last, Format::bytes(count - done));
}

// Several blocks: what one waits for, its largest magnitude and then its scale, others need not wait for.
template <typename Format, std::size_t kBlocks>
void encode_blocks_fed(char* message, const float* values, float* residual, float share, std::uint64_t first,
                       std::uint64_t seed) {
  constexpr std::size_t kBlock = Format::kBlock;
  std::uint32_t largest[kBlocks];
  float wanted[kBlocks * kBlock];
  for (std::size_t b = 0; b < kBlocks; ++b) largest[b] = largest_of<kBlock>(values + b * kBlock);
  for (std::size_t b = 0; b < kBlocks; ++b) {
    const float most = share * float_of(largest[b]);
    for (std::size_t i = b * kBlock; i < (b + 1) * kBlock; i += kLanes) {
      Floats fed = load_vector<Floats>(residual + i);
      fed = fed > most ? Floats{} + most : fed;
      fed = fed < -most ? Floats{} - most : fed;
      store_vector(wanted + i, load_vector<Floats>(values + i) + fed);
    }
  }
  for (std::size_t b = 0; b < kBlocks; ++b) {
    Format::encode(message + b * Format::bytes(kBlock), wanted + b * kBlock, first + b * kBlock, seed);
  }
  for (std::size_t b = 0; b < kBlocks; ++b) {
    if (largest[b] == 0) continue;
    Format::decode(message + b * Format::bytes(kBlock), [&](std::size_t i, const Floats& sent) {
      const Floats lost = load_vector<Floats>(wanted + b * kBlock + i) - sent;
      store_vector(residual + b * kBlock + i, lost - lost == 0 ? lost : Floats{});
    });
  }
}

template <typename Format>
void encode_all_fed(void* to, const float* values, float* residual, float share, std::size_t count, std::uint64_t first,
                    std::uint64_t seed) {
  constexpr std::size_t kBlock = Format::kBlock, kBlocks = 256 / kBlock;
  auto message = static_cast<char*>(to);
  std::size_t done = 0;
  for (; done + kBlocks * kBlock <= count; done += kBlocks * kBlock, message += kBlocks * Format::bytes(kBlock)) {
    encode_blocks_fed<Format, kBlocks>(message, values + done, residual + done, share, first + done, seed);
  }
  for (; done < count; done += kBlock, message += Format::bytes(kBlock)) {
    const std::size_t part = count - done < kBlock ? count - done : kBlock;
    float rest[kBlock] = {}, lost[kBlock] = {};
    char last[Format::bytes(kBlock)];
    __builtin_memcpy(rest, values + done, part * sizeof(float));
    __builtin_memcpy(lost, residual + done, part * sizeof(float));
    encode_blocks_fed<Format, 1>(last, rest, lost, share, first + done, seed);
    __builtin_memcpy(residual + done, lost, part * sizeof(float));
    __builtin_memcpy(message, last, Format::bytes(part));
  }
}

template <typename Format, bool kAdds>
void decode_all(float* to, const float* local, const char* message, std::size_t count) {
  std::size_t done = 0;
  for (; done + Format::kBlock <= count; done += Format::kBlock, message += Format::bytes(Format::kBlock)) {
    Format::decode(message, [&](std::size_t i, const Floats& values) {
      store_vector(to + done + i, kAdds ? load_vector<Floats>(local + done + i) + values : values);
    });
  }
  if (done == count) return;
  float rest[Format::kBlock];
  char last[Format::bytes(Format::kBlock)] = {};
  __builtin_memcpy(last, message, Format::bytes(count - done));
  Format::decode(last, [&](std::size_t i, const Floats& values) { store_vector(rest + i, values); });
  for (std::size_t i = 0; done < count; ++done, ++i) to[done] = kAdds ? local[done] + rest[i] : rest[i];
}

template <typename Format>
void decode_any(float* to, const float* local, const void* message, std::size_t count) {
  auto bytes = static_cast<const char*>(message);
  if (local == nullptr) return decode_all<Format, false>(to, to, bytes, count);
  decode_all<Format, true>(to, local, bytes, count);
}

template <typename Format>
constexpr void fill_format(Kernels& table, int format) {
  table.encode[format] = encode_all<Format>;
  table.encode_fed[format] = encode_all_fed<Format>;
  table.decode[format] = decode_any<Format>;
}

constexpr void fill_wire(Kernels& table) {
  fill_format<Halved<BFloat16>>(table, RODA_WIRE_BF16);
  fill_format<Halved<Float16>>(table, RODA_WIRE_FP16);
  fill_format<Fp8>(table, RODA_WIRE_FP8);
  fill_format<Int8<false>>(table, RODA_WIRE_INT8);
  fill_format<Int4<false>>(table, RODA_WIRE_INT4);
  fill_format<DrawnBFloat16>(table, RODA_WIRE_BF16_STOCHASTIC);
  fill_format<Int8<true>>(table, RODA_WIRE_INT8_STOCHASTIC);
  fill_format<Int4<true>>(table, RODA_WIRE_INT4_STOCHASTIC);
}

}  // namespace
}  // namespace roda::cpu
