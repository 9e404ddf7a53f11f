// The kernels. Compiled once per instruction set, with that set's flags, its name and that of its function (kernels.h):
// everything here has internal linkage and nothing of the standard library's is called, so that no function compiled
// for a newer processor can end up in the program's common copy.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "plugins/devices/cpu/adasum_impl.h"
#include "plugins/devices/cpu/half.h"
#include "plugins/devices/cpu/kernels.h"
#include "plugins/devices/cpu/vectors.h"
#include "plugins/devices/cpu/wire_impl.h"

// Iterations are independent, even when the destination is one of the sources.
#if defined(__clang__)
#define RODA_VECTORISE _Pragma("clang loop vectorize(assume_safety)")
#else
#define RODA_VECTORISE _Pragma("GCC ivdep")
#endif

namespace roda::cpu {
namespace {

// Integers in an unsigned type that is not promoted to int: wrapping is then defined.
template <typename T>
using Wrapping = std::conditional_t<(sizeof(T) < 4), std::uint32_t, std::make_unsigned_t<T>>;

struct Sum {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
    } else {
      return a + b;
    }
  }
};

struct Product {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
    } else {
      return a * b;
    }
  }
};

struct Min {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) return a < b ? a : b;
    return ((a < b) | (a != a)) ? a : b;
  }
};

struct Max {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) return a > b ? a : b;
    return ((a > b) | (a != a)) ? a : b;
  }
};

// For bool, stored in bytes of which any that isn't zero is true.
struct Or {
  template <typename T>
  static T apply(T a, T b) {
    return (a | b) != 0;
  }
};

struct And {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>((a != 0) & (b != 0));
  }
};

// From left to right.
template <typename T, typename Op, typename... Others>
void reduce_all(T* to, std::size_t count, const T* first, const Others*... others) {
  RODA_VECTORISE
  for (std::size_t i = 0; i < count; ++i) {
    T total = first[i];
    ((total = Op::template apply<T>(total, others[i])), ...);
    to[i] = total;
  }
}

// Elements worked on at a time: small enough for the first-level cache.
constexpr std::size_t kTile = 1024;

// The first four sources in one pass, then three more per pass over a tile that is still in the cache. The tile is
// apart from the destination, which may be one of the sources still to come.
template <typename T, typename Op>
void reduce_tile(T* to, const T* const* from, int n, std::size_t offset, std::size_t count) {
  T tile[kTile];
  reduce_all<T, Op>(tile, count, from[0] + offset, from[1] + offset, from[2] + offset, from[3] + offset);
  int next = 4;
  for (; n - next > 3; next += 3) {
    reduce_all<T, Op>(tile, count, tile, from[next] + offset, from[next + 1] + offset, from[next + 2] + offset);
  }
  switch (n - next) {
    case 3:
      return reduce_all<T, Op>(to, count, tile, from[next] + offset, from[next + 1] + offset, from[next + 2] + offset);
    case 2:
      return reduce_all<T, Op>(to, count, tile, from[next] + offset, from[next + 1] + offset);
    default:
      return reduce_all<T, Op>(to, count, tile, from[next] + offset);
  }
}

template <typename T, typename Op>
void reduce_plain(void* destination, const void* const* sources, int n, std::size_t count) {
  T* to = static_cast<T*>(destination);
  auto from = reinterpret_cast<const T* const*>(sources);
  switch (n) {
    case 1:
      if (to != from[0]) __builtin_memmove(to, from[0], count * sizeof(T));
      return;
    case 2:
      return reduce_all<T, Op>(to, count, from[0], from[1]);
    case 3:
      return reduce_all<T, Op>(to, count, from[0], from[1], from[2]);
    case 4:
      return reduce_all<T, Op>(to, count, from[0], from[1], from[2], from[3]);
    default:
      for (std::size_t done = 0; done < count; done += kTile) {
        reduce_tile<T, Op>(to + done, from, n, done, count - done < kTile ? count - done : kTile);
      }
  }
}

// kSources 0: n of them, else that many, which saves the inner loop.
template <typename Half, typename Op, int kSources>
void reduce_halves(std::uint16_t* to, const std::uint16_t* const* from, int n, std::size_t count) {
  const int sources = kSources > 0 ? kSources : n;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Floats total = Half::widen(load_vector<Halves>(from[0] + i));
    for (int k = 1; k < sources; ++k) {
      total = Op::template apply<Floats>(total, Half::widen(load_vector<Halves>(from[k] + i)));
    }
    store_vector(to + i, Half::narrow(total));
  }
  for (; i < count; ++i) {
    float total = Half::widen(from[0][i]);
    for (int k = 1; k < sources; ++k) total = Op::template apply<float>(total, Half::widen(from[k][i]));
    to[i] = Half::narrow(total);
  }
}

template <typename Half, typename Op>
void reduce_half(void* destination, const void* const* sources, int n, std::size_t count) {
  auto to = static_cast<std::uint16_t*>(destination);
  auto from = reinterpret_cast<const std::uint16_t* const*>(sources);
  if (n == 2) return reduce_halves<Half, Op, 2>(to, from, n, count);
  reduce_halves<Half, Op, 0>(to, from, n, count);
}

template <typename T>
T truncated(double value) {
  constexpr double low = static_cast<double>(std::numeric_limits<T>::min());
  // The first value past the range, a power of two and thus exact.
  constexpr double high = static_cast<double>(std::numeric_limits<T>::max() / 2 + 1) * 2;
  constexpr T least = std::numeric_limits<T>::min();
  constexpr T most = std::numeric_limits<T>::max();
  if (!(value > low)) return value == value ? least : T{0};
  return value < high ? static_cast<T>(value) : most;
}

template <typename T>
void scale_plain(void* data, std::size_t count, double factor) {
  T* values = static_cast<T*>(data);
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (std::is_integral_v<T>) {
      values[i] = truncated<T>(static_cast<double>(values[i]) * factor);
    } else {
      values[i] *= static_cast<T>(factor);
    }
  }
}

void scale_bool(void* data, std::size_t count, double factor) {
  auto values = static_cast<std::uint8_t*>(data);
  const bool kept = truncated<std::int64_t>(factor) != 0;
  for (std::size_t i = 0; i < count; ++i) values[i] = values[i] != 0 && kept;
}

template <typename Half>
void scale_half(void* data, std::size_t count, double factor) {
  auto values = static_cast<std::uint16_t*>(data);
  const float single = static_cast<float>(factor);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    store_vector(values + i, Half::narrow(Half::widen(load_vector<Halves>(values + i)) * single));
  }
  for (; i < count; ++i) values[i] = Half::narrow(Half::widen(values[i]) * single);
}

constexpr void fill_row(Kernels& table, int dtype, ReduceFunction sum, ReduceFunction product, ReduceFunction least,
                        ReduceFunction most, ScaleFunction scale) {
  table.reduce[dtype][RODA_SUM] = sum;
  table.reduce[dtype][RODA_PRODUCT] = product;
  table.reduce[dtype][RODA_MIN] = least;
  table.reduce[dtype][RODA_MAX] = most;
  table.scale[dtype] = scale;
}

template <typename T>
constexpr void fill_plain_row(Kernels& table, int dtype) {
  fill_row(table, dtype, reduce_plain<T, Sum>, reduce_plain<T, Product>, reduce_plain<T, Min>, reduce_plain<T, Max>,
           scale_plain<T>);
}

template <typename Half>
constexpr void fill_half_row(Kernels& table, int dtype) {
  fill_row(table, dtype, reduce_half<Half, Sum>, reduce_half<Half, Product>, reduce_half<Half, Min>,
           reduce_half<Half, Max>, scale_half<Half>);
}

constexpr Kernels make_kernels(const char* isa) {
  Kernels table{};
  table.isa = isa;
  fill_plain_row<std::uint8_t>(table, RODA_UINT8);
  fill_plain_row<std::int8_t>(table, RODA_INT8);
  fill_plain_row<std::uint16_t>(table, RODA_UINT16);
  fill_plain_row<std::int16_t>(table, RODA_INT16);
  fill_plain_row<std::int32_t>(table, RODA_INT32);
  fill_plain_row<std::int64_t>(table, RODA_INT64);
  fill_half_row<Float16>(table, RODA_FLOAT16);
  fill_plain_row<float>(table, RODA_FLOAT32);
  fill_plain_row<double>(table, RODA_FLOAT64);
  constexpr ReduceFunction any = reduce_plain<std::uint8_t, Or>, all = reduce_plain<std::uint8_t, And>;
  fill_row(table, RODA_BOOL, any, all, all, any, scale_bool);
  fill_half_row<BFloat16>(table, RODA_BFLOAT16);
  table.dots[RODA_FLOAT16] = dots_half<widen_all<Float16>>;
  table.dots[RODA_BFLOAT16] = dots_half<widen_all<BFloat16>>;
  table.dots[RODA_FLOAT32] = dots_plain<float>;
  table.dots[RODA_FLOAT64] = dots_plain<double>;
  table.weigh[RODA_FLOAT16] = weigh_half<widen_all<Float16>, narrow_all<Float16>>;
  table.weigh[RODA_BFLOAT16] = weigh_half<widen_all<BFloat16>, narrow_all<BFloat16>>;
  table.weigh[RODA_FLOAT32] = weigh_plain<float>;
  table.weigh[RODA_FLOAT64] = weigh_plain<double>;
  fill_wire(table);
  return table;
}

constexpr Kernels kTable = make_kernels(RODA_CPU_ISA);

}  // namespace

const Kernels& RODA_CPU_KERNELS() { return kTable; }

}  // namespace roda::cpu
