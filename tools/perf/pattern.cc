#include "tools/perf/pattern.h"

#include <roda/abi/types.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace roda::perf {

namespace {

// Never the neutral element of a reduction everywhere, so that a rank left out is noticed at any size.
double contribution(std::int32_t dtype, std::int32_t op, int rank, std::size_t index) {
  const auto step = static_cast<double>(index % 7 + 1);
  if (dtype == RODA_BOOL) return static_cast<double>((index + static_cast<std::size_t>(rank)) % 2);
  if (op == RODA_AVERAGE || op == RODA_ADASUM) return step;  // of equal vectors both are the same again
  if (op == RODA_PRODUCT) return static_cast<double>((index + static_cast<std::size_t>(rank)) % 2 + 1);
  return (rank % 4 + 1) * step;
}

double combine(std::int32_t op, double a, double b) {
  switch (op) {
    case RODA_MIN:
      return std::min(a, b);
    case RODA_MAX:
      return std::max(a, b);
    case RODA_PRODUCT:
      return a * b;
    default:
      return a + b;
  }
}

// What the mantissa has no bits for is cut off: of a half that is nothing, for the integers up to 2048 that the
// patterns hold.
int short_float_bits(double value, int mantissa_bits, int bias) {
  if (value == 0) return 0;
  int exponent = 0;
  const double mantissa = std::frexp(value, &exponent);  // 0.5 <= mantissa < 1
  const int steps = 1 << mantissa_bits;
  return (exponent - 1 + bias) * steps + static_cast<int>((mantissa * 2 - 1) * steps);
}

template <typename T>
void put(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof value);
}

// Integers wrap as the reduction does.
void encode(std::int32_t dtype, double value, std::byte* to) {
  switch (dtype) {
    case RODA_FLOAT32:
      return put(static_cast<float>(value), to);
    case RODA_FLOAT64:
      return put(value, to);
    case RODA_FLOAT16:
      return put(static_cast<std::uint16_t>(short_float_bits(value, 10, 15)), to);
    case RODA_BFLOAT16:
      return put(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16), to);
    case RODA_FLOAT8_E4M3FN:
      return put(static_cast<std::uint8_t>(short_float_bits(value, 3, 7)), to);
    case RODA_FLOAT8_E5M2:
      return put(static_cast<std::uint8_t>(short_float_bits(value, 2, 15)), to);
    case RODA_BOOL:
      return put(static_cast<std::uint8_t>(value != 0), to);
    default: {
      const auto integer = static_cast<std::int64_t>(value);
      std::memcpy(to, &integer, roda_dtype_size(dtype));  // the low bytes, on the little-endian machines we run on
    }
  }
}

static_assert(std::endian::native == std::endian::little);

}  // namespace

Pattern::Pattern(std::int32_t dtype, const double (&values)[kPeriod])
    : element_(roda_dtype_size(dtype)), twice_(2 * kPeriod * element_) {
  for (std::size_t i = 0; i < 2 * kPeriod; ++i) encode(dtype, values[i % kPeriod], twice_.data() + i * element_);
}

Pattern Pattern::input(std::int32_t dtype, std::int32_t op, int rank) {
  double values[kPeriod];
  for (std::size_t i = 0; i < kPeriod; ++i) values[i] = contribution(dtype, op, rank, i);
  return {dtype, values};
}

double Pattern::largest(std::int32_t op, int rank) {
  double most = 0;
  for (std::size_t i = 0; i < kPeriod; ++i) most = std::max(most, std::abs(contribution(RODA_FLOAT32, op, rank, i)));
  return most;
}

Pattern Pattern::reduced(std::int32_t dtype, std::int32_t op, int ranks) {
  double values[kPeriod];
  for (std::size_t i = 0; i < kPeriod; ++i) {
    values[i] = contribution(dtype, op, 0, i);
    for (int rank = 1; rank < ranks; ++rank) values[i] = combine(op, values[i], contribution(dtype, op, rank, i));
    if (op == RODA_AVERAGE || op == RODA_ADASUM) values[i] /= ranks;
  }
  return {dtype, values};
}

void Pattern::fill(void* data, std::size_t first, std::size_t count) const {
  auto* to = static_cast<std::byte*>(data);
  const std::byte* from = twice_.data() + first % kPeriod * element_;
  for (; count > 0;) {
    const std::size_t now = std::min(count, kPeriod);
    std::memcpy(to, from, now * element_);
    to += now * element_;
    count -= now;
  }
}

bool Pattern::matches(const void* data, std::size_t first, std::size_t count) const {
  const auto* have = static_cast<const std::byte*>(data);
  const std::byte* want = twice_.data() + first % kPeriod * element_;
  for (; count > 0;) {
    const std::size_t now = std::min(count, kPeriod);
    if (std::memcmp(have, want, now * element_) != 0) return false;
    have += now * element_;
    count -= now;
  }
  return true;
}

bool Pattern::is_near(const void* data, std::size_t first, std::size_t count, double tolerance) const {
  const auto* have = static_cast<const float*>(data);
  const auto* want = reinterpret_cast<const float*>(twice_.data()) + first % kPeriod;
  for (std::size_t i = 0; i < count; ++i) {
    if (!(std::abs(double{have[i]} - double{want[i % kPeriod]}) <= tolerance)) return false;
  }
  return true;
}

}  // namespace roda::perf
