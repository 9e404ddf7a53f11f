#include "tests/gpu/reference.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace roda::gpu_test {
namespace {

// A binary floating-point format of 16 bits.
struct Format {
  int fraction_bits;
  int lowest_exponent;  // of normal numbers
  int highest_exponent;
};
constexpr Format kHalf{10, -14, 15};
constexpr Format kBfloat{7, -126, 127};

long double load_small(const Format& format, std::uint16_t bits) {
  const int exponent_bits = 15 - format.fraction_bits;
  const int exponent = (bits >> format.fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << format.fraction_bits) - 1);
  const long double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction != 0 ? NAN : sign * INFINITY;
  const int scale = std::max(exponent, 1) - 1 + format.lowest_exponent - format.fraction_bits;
  return sign * std::ldexp(static_cast<long double>(fraction + (exponent > 0 ? 1 << format.fraction_bits : 0)), scale);
}

std::uint16_t store_small(const Format& format, long double value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const int special = ((1 << (15 - format.fraction_bits)) - 1) << format.fraction_bits;
  if (std::isnan(value)) return static_cast<std::uint16_t>(special | (1 << (format.fraction_bits - 1)));
  const long double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return static_cast<std::uint16_t>(sign | special);
  if (magnitude == 0) return sign;
  const int exponent = std::max(std::ilogb(magnitude), format.lowest_exponent);
  if (exponent > format.highest_exponent) return static_cast<std::uint16_t>(sign | special);
  // Steps of the last place, rounded to even; a carry runs into the exponent by itself.
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, format.fraction_bits - exponent)));
  const int bits = ((exponent - format.lowest_exponent) << format.fraction_bits) + steps;
  return static_cast<std::uint16_t>(sign | std::min(bits, special));
}

template <typename T>
T get(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <typename T>
void put(char* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

template <typename T>
T saturated(long double value) {
  if (std::isnan(value)) return 0;
  if (value <= static_cast<long double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  if (value >= static_cast<long double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(value);
}

// Exact enough for all but float64, which is computed in itself: a second rounding could differ.
template <typename T>
T combine(int op, T a, T b) {
  if ((op == RODA_MIN || op == RODA_MAX) && (std::isnan(a) || std::isnan(b))) return NAN;
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

std::int64_t combine_wrapping(int op, std::int64_t a, std::int64_t b) {
  if (op == RODA_MIN) return std::min(a, b);
  if (op == RODA_MAX) return std::max(a, b);
  const auto left = static_cast<std::uint64_t>(a), right = static_cast<std::uint64_t>(b);
  return static_cast<std::int64_t>(op == RODA_PRODUCT ? left * right : left + right);
}

}  // namespace

bool is_float(int dtype) {
  return dtype == RODA_FLOAT16 || dtype == RODA_BFLOAT16 || dtype == RODA_FLOAT32 || dtype == RODA_FLOAT64;
}

long double load(int dtype, const char* at) {
  switch (dtype) {
    case RODA_UINT8:
      return get<std::uint8_t>(at);
    case RODA_INT8:
      return get<std::int8_t>(at);
    case RODA_UINT16:
      return get<std::uint16_t>(at);
    case RODA_INT16:
      return get<std::int16_t>(at);
    case RODA_INT32:
      return get<std::int32_t>(at);
    case RODA_INT64:
      return get<std::int64_t>(at);
    case RODA_FLOAT16:
      return load_small(kHalf, get<std::uint16_t>(at));
    case RODA_BFLOAT16:
      return load_small(kBfloat, get<std::uint16_t>(at));
    case RODA_FLOAT32:
      return get<float>(at);
    case RODA_FLOAT64:
      return get<double>(at);
    default:
      return get<std::uint8_t>(at) != 0;
  }
}

void store(int dtype, char* at, long double value) {
  switch (dtype) {
    case RODA_UINT8:
      return put(at, saturated<std::uint8_t>(value));
    case RODA_INT8:
      return put(at, saturated<std::int8_t>(value));
    case RODA_UINT16:
      return put(at, saturated<std::uint16_t>(value));
    case RODA_INT16:
      return put(at, saturated<std::int16_t>(value));
    case RODA_INT32:
      return put(at, saturated<std::int32_t>(value));
    case RODA_INT64:
      return put(at, saturated<std::int64_t>(value));
    case RODA_FLOAT16:
      return put(at, store_small(kHalf, value));
    case RODA_BFLOAT16:
      return put(at, store_small(kBfloat, value));
    case RODA_FLOAT32:
      return put(at, static_cast<float>(value));
    case RODA_FLOAT64:
      return put(at, static_cast<double>(value));
    default:
      return put(at, static_cast<std::uint8_t>(value != 0));
  }
}

void reduce_one(int dtype, int op, char* to, const char* a, const char* b) {
  const long double left = load(dtype, a), right = load(dtype, b);
  if (dtype == RODA_BOOL) {
    const bool is_or = op == RODA_SUM || op == RODA_MAX;
    return put(to, static_cast<std::uint8_t>(is_or ? left != 0 || right != 0 : left != 0 && right != 0));
  }
  if (!is_float(dtype)) {
    const std::int64_t sum = combine_wrapping(op, static_cast<std::int64_t>(left), static_cast<std::int64_t>(right));
    std::memcpy(to, &sum, roda_dtype_size(dtype));  // the low bytes come first
    return;
  }
  if (dtype == RODA_FLOAT64) return put(to, combine(op, static_cast<double>(left), static_cast<double>(right)));
  store(dtype, to, static_cast<float>(combine(op, left, right)));
}

void scale_one(int dtype, char* to, const char* from, double factor) {
  const long double value = load(dtype, from);
  if (dtype == RODA_FLOAT64) return store(dtype, to, static_cast<double>(value) * factor);
  if (is_float(dtype)) return store(dtype, to, static_cast<float>(value) * static_cast<float>(factor));
  // An integer's product by way of double.
  const double exact = static_cast<double>(value) * factor;
  store(dtype, to, dtype == RODA_BOOL ? std::trunc(exact) : exact);
}

std::vector<char> random_elements(int dtype, std::size_t count, std::mt19937_64& random) {
  std::vector<char> data(count * roda_dtype_size(dtype));
  for (char& byte : data) {
    byte = static_cast<char>(random());
    if (dtype == RODA_BOOL && random() % 2 == 0) byte = 0;
  }
  return data;
}

std::ptrdiff_t first_difference(int dtype, const std::vector<char>& a, const std::vector<char>& b) {
  const std::size_t width = roda_dtype_size(dtype);
  for (std::size_t i = 0; i < a.size() / width; ++i) {
    const char *left = &a[i * width], *right = &b[i * width];
    if (std::memcmp(left, right, width) == 0) continue;
    if (is_float(dtype) && std::isnan(load(dtype, left)) && std::isnan(load(dtype, right))) continue;
    if (dtype == RODA_BOOL && load(dtype, left) == load(dtype, right)) continue;
    return static_cast<std::ptrdiff_t>(i);
  }
  return -1;
}

}  // namespace roda::gpu_test
