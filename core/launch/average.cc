#include "core/launch/average.h"

#include <roda/abi/types.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "plugins/base/invariant.h"

namespace roda::engine {
namespace {

constexpr int kMostIn32 = 1 << 15;  // ranks whose 16-bit numbers add up in 32 bits

template <typename T>
T saturated(double value) {
  // The first value past the range is a power of two and thus exact.
  if (value >= std::ldexp(1.0, std::numeric_limits<T>::digits)) return std::numeric_limits<T>::max();
  if (value <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  return value == value ? static_cast<T>(value) : T{0};
}

template <typename T, typename Sum>
void spread_in(void* sums, const void* values, std::size_t count) {
  const T* const from = static_cast<const T*>(values);
  Sum* const to = static_cast<Sum*>(sums);
  for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<Sum>(from[i]);
}

template <typename T, typename Sum>
void average_in(void* values, const void* sums, std::size_t count, int members, double postscale) {
  const Sum* const from = static_cast<const Sum*>(sums);
  T* const to = static_cast<T*>(values);
  if (postscale == 1.0) {
    // Processors divide doubles ten times faster, and several at once. The quotient has 32 bits at most, and up to 2^21
    // members a rest that is too large to be rounded up to a whole.
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<T>(static_cast<double>(from[i]) / members);
  } else {
    for (std::size_t i = 0; i < count; ++i) to[i] = saturated<T>(static_cast<double>(from[i]) * postscale / members);
  }
}

void spread_pairs(std::int64_t* sums, const std::int64_t* values, std::size_t count, int members) {
  for (std::size_t i = 0; i < count; ++i) {
    sums[2 * i] = values[i] / members;
    sums[2 * i + 1] = values[i] % members;
  }
}

// Whole averages and rests may be of different signs; what is left of a whole one is then cut off from it.
void average_pairs(std::int64_t* values, const std::int64_t* sums, std::size_t count, int members, double postscale) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t rest = sums[2 * i + 1] % members;
    std::int64_t whole = sums[2 * i] + sums[2 * i + 1] / members;
    if (postscale == 1.0) {
      if (whole > 0 && rest < 0) --whole;
      if (whole < 0 && rest > 0) ++whole;
      values[i] = whole;
    } else {
      values[i] =
          saturated<std::int64_t>((static_cast<double>(whole) + static_cast<double>(rest) / members) * postscale);
    }
  }
}

// The C++ type of a signed number of so many bytes; none of 8, whose averages are taken as pairs.
template <int kBytes>
struct Whole;
template <>
struct Whole<1> : std::type_identity<std::int8_t> {};
template <>
struct Whole<2> : std::type_identity<std::int16_t> {};
template <>
struct Whole<4> : std::type_identity<std::int32_t> {};

// Calls `f` with a number of the dtype and one of the type that its sums are taken in: of every whole number in the
// table of dtypes but int64. A new row's averages are right by its size and sign; one of 64 bits does not compile.
template <int kDtype = 0, typename F>
void with_types(int dtype, int members, F&& f) {
  if constexpr (kDtype < RODA_DTYPE_COUNT) {
    if (dtype != kDtype) return with_types<kDtype + 1>(dtype, members, f);
    constexpr roda_dtype_entry kEntry = roda_dtypes[kDtype];
    if constexpr ((kEntry.traits & RODA_INTEGER) != 0 && kDtype != RODA_INT64) {
      using Signed = typename Whole<kEntry.bytes>::type;
      const std::conditional_t<kEntry.dlpack == 0, Signed, std::make_unsigned_t<Signed>> value{};
      return sum_dtype(dtype, members) == RODA_INT64 ? f(value, std::int64_t{}) : f(value, std::int32_t{});
    }
  }
  RODA_INVARIANT(false, "averages are spread of whole numbers alone");
}

}  // namespace

int sum_dtype(int dtype, int members) {
  if (roda_dtype_is(dtype, RODA_INTEGER) == 0) return dtype;
  return roda_dtype_size(dtype) < 4 && members <= kMostIn32 ? int{RODA_INT32} : int{RODA_INT64};
}

std::size_t sum_width(int dtype) { return dtype == RODA_INT64 ? 2 : 1; }

void spread(void* sums, const void* values, std::size_t count, int dtype, int members) {
  if (dtype == RODA_INT64) {
    return spread_pairs(static_cast<std::int64_t*>(sums), static_cast<const std::int64_t*>(values), count, members);
  }
  with_types(dtype, members, [&]<typename T, typename Sum>(T, Sum) { spread_in<T, Sum>(sums, values, count); });
}

void average(void* values, const void* sums, std::size_t count, int dtype, int members, double postscale) {
  if (dtype == RODA_INT64) {
    return average_pairs(static_cast<std::int64_t*>(values), static_cast<const std::int64_t*>(sums), count, members,
                         postscale);
  }
  with_types(dtype, members,
             [&]<typename T, typename Sum>(T, Sum) { average_in<T, Sum>(values, sums, count, members, postscale); });
}

double factor_before(int dtype, int members) {
  return dtype == RODA_FLOAT16 ? 1.0 / std::bit_ceil(static_cast<unsigned>(members)) : 1.0;
}

}  // namespace roda::engine
