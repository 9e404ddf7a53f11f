#include "plugins/conformance/values.h"

#include <roda/abi/types.h>

#include <algorithm>
#include <cstring>

namespace roda::conformance {
namespace {

// Kept so small that sums and products over 16 ranks fit an int8 and are exact in a bfloat16.
int value_of(int rank, std::size_t index, int dtype, int op) {
  const auto mixed = static_cast<unsigned>(index * 7 + static_cast<unsigned>(rank) * 3 + index / 5);
  if (dtype == RODA_BOOL) return mixed % 3 == 0 ? 0 : 1;
  if (op == RODA_PRODUCT) return mixed % 5 == 0 && rank < 4 ? 2 : 1;
  return static_cast<int>(mixed % 5) + 1;  // never zero: a sum that moved nothing must not look right
}

// Whole numbers of as many bits as the mantissa has, and one.
int short_float_bits(int value, int mantissa, int bias) {
  if (value == 0) return 0;
  int exponent = 0;
  while ((value >> (exponent + 1)) != 0) ++exponent;
  return ((exponent + bias) << mantissa) | ((value << (mantissa - exponent)) & ((1 << mantissa) - 1));
}

std::uint16_t bfloat_bits(int value) {
  const auto number = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &number, sizeof bits);
  return static_cast<std::uint16_t>(bits >> 16);
}

template <typename T>
void put(char* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

void encode(char* to, int dtype, int value) {
  switch (dtype) {
    case RODA_UINT8:
    case RODA_INT8:
    case RODA_BOOL:
      return put(to, static_cast<std::uint8_t>(value));
    case RODA_UINT16:
    case RODA_INT16:
      return put(to, static_cast<std::uint16_t>(value));
    case RODA_INT32:
      return put(to, static_cast<std::int32_t>(value));
    case RODA_INT64:
      return put(to, static_cast<std::int64_t>(value));
    case RODA_FLOAT16:
      return put(to, static_cast<std::uint16_t>(short_float_bits(value, 10, 15)));
    case RODA_BFLOAT16:
      return put(to, bfloat_bits(value));
    case RODA_FLOAT8_E4M3FN:
      return put(to, static_cast<std::uint8_t>(short_float_bits(value, 3, 7)));
    case RODA_FLOAT8_E5M2:
      return put(to, static_cast<std::uint8_t>(short_float_bits(value, 2, 15)));
    case RODA_FLOAT32:
      return put(to, static_cast<float>(value));
    default:
      return put(to, static_cast<double>(value));
  }
}

int combine(int a, int b, int dtype, int op) {
  if (dtype == RODA_BOOL) return op == RODA_SUM || op == RODA_MAX ? (a | b) : (a & b);
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

}  // namespace

std::vector<char> make_elements(int dtype, std::size_t count, int rank, int op) {
  const std::size_t width = roda_dtype_size(dtype);
  std::vector<char> data(count * width);
  for (std::size_t i = 0; i < count; ++i) encode(&data[i * width], dtype, value_of(rank, i, dtype, op));
  return data;
}

std::vector<char> reduced_elements(int dtype, std::size_t count, int ranks, int op, std::size_t first) {
  const std::size_t width = roda_dtype_size(dtype);
  std::vector<char> data(count * width);
  for (std::size_t i = 0; i < count; ++i) {
    int value = value_of(0, first + i, dtype, op);
    for (int rank = 1; rank < ranks; ++rank) value = combine(value, value_of(rank, first + i, dtype, op), dtype, op);
    encode(&data[i * width], dtype, value);
  }
  return data;
}

std::int64_t first_difference(const std::vector<char>& a, const std::vector<char>& b, int dtype) {
  const auto at = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  if (at == a.end() && a.size() == b.size()) return -1;
  return (at - a.begin()) / static_cast<std::int64_t>(roda_dtype_size(dtype));
}

}  // namespace roda::conformance
