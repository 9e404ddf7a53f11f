// The kernels: see kernel_arguments.h for what each is given, <roda/abi/device.h> for what each means. Compiled by nvcc
// to an image that the plugin carries as bytes and the driver loads; nothing of CUDA's runtime is used.
//
// Data are streamed once, so that each thread moves 16 bytes at a time where addresses allow it, and each block takes a
// fixed share of one tensor: which one, it finds by a binary search in the table.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "plugins/devices/cuda/kernel_arguments.h"

namespace {

using namespace roda::cuda_device;

// Values of roda_reduce_op.
enum Op { kSum = 1, kMin = 3, kMax = 4, kProduct = 5 };

__device__ const Segment& segment_of(const Segment* segments, unsigned count, Word block) {
  unsigned low = 0, high = count - 1;
  while (low < high) {
    const unsigned middle = (low + high + 1) / 2;
    if (segments[middle].first_block <= block) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return segments[low];
}

// --- copies ---

// Tensors and buffer don't overlap: several loads are under way before the first store.
template <typename Vector>
__device__ void copy_vectors(char* __restrict__ to, const char* __restrict__ from, Word bytes) {
  const unsigned count = static_cast<unsigned>(bytes / sizeof(Vector));
#pragma unroll 8
  for (unsigned i = threadIdx.x; i < count; i += kThreads) {
    reinterpret_cast<Vector*>(to)[i] = reinterpret_cast<const Vector*>(from)[i];
  }
  const Word done = Word{count} * sizeof(Vector);
  for (Word i = done + threadIdx.x; i < bytes; i += kThreads) to[i] = from[i];
}

__device__ void copy_block(char* to, const char* from, Word bytes) {
  const Word skew = reinterpret_cast<Word>(to) ^ reinterpret_cast<Word>(from);
  const Word step = skew % 16 == 0 ? 16 : skew % 8 == 0 ? 8 : skew % 4 == 0 ? 4 : 1;
  // Up to where both are aligned.
  Word head = (step - reinterpret_cast<Word>(to) % step) % step;
  if (head > bytes) head = bytes;
  if (threadIdx.x < head) to[threadIdx.x] = from[threadIdx.x];
  to += head;
  from += head;
  bytes -= head;
  if (step == 16) {
    copy_vectors<uint4>(to, from, bytes);
  } else if (step == 8) {
    copy_vectors<uint2>(to, from, bytes);
  } else if (step == 4) {
    copy_vectors<unsigned>(to, from, bytes);
  } else {
    copy_vectors<char>(to, from, bytes);
  }
}

__device__ void move(const PackArguments& arguments, bool packs) {
  const Segment segment = segment_of(reinterpret_cast<const Segment*>(arguments.segments), arguments.count, blockIdx.x);
  const Word first = (blockIdx.x - segment.first_block) * kBlockBytes;
  const Word bytes = segment.length - first < kBlockBytes ? segment.length - first : kBlockBytes;
  char* tensor = reinterpret_cast<char*>(segment.tensor) + first;
  char* buffer = reinterpret_cast<char*>(arguments.buffer) + segment.offset + first;
  if (packs) {
    copy_block(buffer, tensor, bytes);
  } else {
    copy_block(tensor, buffer, bytes);
  }
}

// --- scaling ---

struct Bool {
  unsigned char byte;
};

// What an element is computed in: the 16-bit floats and float in float, double in double, integers in themselves; and
// how it comes from there. The 16-bit floats are rounded then.
template <typename T>
struct Traits {
  using Computed = long long;
  static constexpr bool kIsSigned = static_cast<T>(-1) < static_cast<T>(1);
  static constexpr long long kLowest = static_cast<long long>(kIsSigned ? (1ull << (8 * sizeof(T) - 1)) * ~0ull : 0ull);
  static constexpr long long kHighest =
      static_cast<long long>(kIsSigned ? (1ull << (8 * sizeof(T) - 1)) - 1 : (1ull << (8 * sizeof(T) % 64)) - 1);
  __device__ static long long load(T value) { return static_cast<long long>(value); }
  __device__ static T store(long long value) { return static_cast<T>(value); }
};
template <>
struct Traits<Bool> {
  using Computed = long long;
  __device__ static long long load(Bool value) { return value.byte != 0; }
  __device__ static Bool store(long long value) { return Bool{static_cast<unsigned char>(value != 0)}; }
};
template <typename T>
struct PlainFloat {
  using Computed = T;
  __device__ static T load(T value) { return value; }
  __device__ static T store(T value) { return value; }
};
template <>
struct Traits<float> : PlainFloat<float> {};
template <>
struct Traits<double> : PlainFloat<double> {};
template <>
struct Traits<__half> {
  using Computed = float;
  __device__ static float load(__half value) { return __half2float(value); }
  __device__ static __half store(float value) { return __float2half_rn(value); }
};
template <>
struct Traits<__nv_bfloat16> {
  using Computed = float;
  __device__ static float load(__nv_bfloat16 value) { return __bfloat162float(value); }
  __device__ static __nv_bfloat16 store(float value) { return __float2bfloat16_rn(value); }
};

// Toward zero; out of range saturates, NaN is 0.
template <typename T>
__device__ T truncate(double value) {
  if (value != value) return 0;
  const double low = static_cast<double>(Traits<T>::kLowest), high = static_cast<double>(Traits<T>::kHighest);
  if (value <= low) return static_cast<T>(Traits<T>::kLowest);
  if (value >= high) return static_cast<T>(Traits<T>::kHighest);
  return static_cast<T>(static_cast<long long>(value));
}

// Floats are multiplied in what they are computed in, integers by way of double and truncated.
template <typename T>
struct Scale {
  __device__ static long long times(long long value, double factor) {
    return truncate<T>(static_cast<double>(value) * factor);
  }
  __device__ static float times(float value, double factor) { return value * static_cast<float>(factor); }
  __device__ static double times(double value, double factor) { return value * factor; }
};
template <>
struct Scale<Bool> {
  __device__ static long long times(long long value, double factor) {
    return truncate<long long>(static_cast<double>(value) * factor) != 0;
  }
};

// Elements from `first` on.
struct Range {
  Word to;
  Word from;
  Word first;
  Word count;
  double factor;
};

// Loads a few elements before it stores them: to and from may be the same memory.
template <typename T>
__device__ void scale(const Range& range) {
  constexpr unsigned kAtOnce = 4;
  T* to = reinterpret_cast<T*>(range.to) + range.first;
  const T* from = reinterpret_cast<const T*>(range.from) + range.first;
  const unsigned count = static_cast<unsigned>(range.count);
  for (unsigned first = threadIdx.x; first < count; first += kThreads * kAtOnce) {
    T loaded[kAtOnce];
#pragma unroll
    for (unsigned j = 0; j < kAtOnce; ++j) {
      if (first + j * kThreads < count) loaded[j] = from[first + j * kThreads];
    }
#pragma unroll
    for (unsigned j = 0; j < kAtOnce; ++j) {
      if (first + j * kThreads >= count) break;
      to[first + j * kThreads] = Traits<T>::store(Scale<T>::times(Traits<T>::load(loaded[j]), range.factor));
    }
  }
}

template <typename T>
struct Type {
  using Of = T;
};

// `action(Type<T>())` for the type of a dtype's elements.
template <typename Action>
__device__ void with_type(int dtype, const Action& action) {
  switch (dtype) {
    case kU8:
      return action(Type<unsigned char>());
    case kI8:
      return action(Type<signed char>());
    case kU16:
      return action(Type<unsigned short>());
    case kI16:
      return action(Type<short>());
    case kI32:
      return action(Type<int>());
    case kI64:
      return action(Type<long long>());
    case kF16:
      return action(Type<__half>());
    case kF32:
      return action(Type<float>());
    case kF64:
      return action(Type<double>());
    case kBool:
      return action(Type<Bool>());
    case kBf16:
      return action(Type<__nv_bfloat16>());
  }
}

__device__ void scale(const Range& range, int dtype) {
  with_type(dtype, [&](auto type) { scale<typename decltype(type)::Of>(range); });
}

__device__ void move_scaled(const PackScaledArguments& arguments, bool packs) {
  const Segment segment = segment_of(reinterpret_cast<const Segment*>(arguments.segments), arguments.count, blockIdx.x);
  const Word first = (blockIdx.x - segment.first_block) * kBlockElements;
  const Word count = segment.length - first < kBlockElements ? segment.length - first : kBlockElements;
  const Word tensor = segment.tensor, buffer = arguments.buffer + segment.offset;
  scale({packs ? buffer : tensor, packs ? tensor : buffer, first, count, arguments.factor}, arguments.dtype);
}

// --- averages of whole numbers ---

// `action(Type<T>(), Type<Sum>())` for the dtype's numbers and those that they are summed up in.
template <typename Action>
__device__ void with_sum(const AverageArguments& arguments, const Action& action) {
  with_type(arguments.dtype, [&](auto type) {
    using T = typename decltype(type)::Of;
    if constexpr (std::is_integral_v<T>) {
      if (sizeof(T) < 4 && arguments.members <= 1 << 15) return action(type, Type<int>());
      action(type, Type<long long>());
    }
  });
}

// `action(i)` for this thread's elements of `count`.
template <typename Action>
__device__ void for_each_element(Word count, const Action& action) {
  const Word first = Word{blockIdx.x} * kBlockElements;
  const Word end = count - first < kBlockElements ? count : first + kBlockElements;
  for (Word i = first + threadIdx.x; i < end; i += kThreads) action(i);
}

__device__ void widen(const AverageArguments& arguments) {
  const int members = arguments.members;
  with_sum(arguments, [&](auto type, auto sum) {
    using T = typename decltype(type)::Of;
    using Sum = typename decltype(sum)::Of;
    const T* values = reinterpret_cast<const T*>(arguments.values);
    Sum* sums = reinterpret_cast<Sum*>(arguments.sums);
    for_each_element(arguments.count, [&](Word i) {
      if constexpr (sizeof(T) == 8) {
        sums[2 * i] = values[i] / members;
        sums[2 * i + 1] = values[i] % members;
      } else {
        sums[i] = values[i];
      }
    });
  });
}

// The average of a sum that is given as a quotient and a rest, both summed up. They may have different signs: the
// fraction that the rest takes from a whole is cut off, too.
__device__ long long average_of(long long whole, long long rest, int members, double postscale) {
  whole += rest / members;
  rest %= members;
  if (postscale != 1.0) {
    return truncate<long long>((static_cast<double>(whole) + static_cast<double>(rest) / members) * postscale);
  }
  return whole > 0 && rest < 0 ? whole - 1 : whole < 0 && rest > 0 ? whole + 1 : whole;
}

__device__ void average(const AverageArguments& arguments) {
  const int members = arguments.members;
  const double postscale = arguments.postscale;
  with_sum(arguments, [&](auto type, auto sum) {
    using T = typename decltype(type)::Of;
    using Sum = typename decltype(sum)::Of;
    T* values = reinterpret_cast<T*>(arguments.values);
    const Sum* sums = reinterpret_cast<const Sum*>(arguments.sums);
    for_each_element(arguments.count, [&](Word i) {
      if constexpr (sizeof(T) == 8) {
        values[i] = average_of(sums[2 * i], sums[2 * i + 1], members, postscale);
      } else {
        values[i] = postscale == 1.0 ? static_cast<T>(sums[i] / members)
                                     : truncate<T>(static_cast<double>(sums[i]) * postscale / members);
      }
    });
  });
}

// --- reductions ---

// Integers wrap around; 16-bit floats are computed in float; min and max hand a NaN on.
template <int kOp, typename C>
__device__ C apply(C a, C b) {
  if (kOp == kSum) return a + b;
  if (kOp == kProduct) return a * b;
  if (kOp == kMin) return (a < b || a != a) ? a : b;
  return (a > b || a != a) ? a : b;
}

template <int kOp, typename T>
__device__ T combine(T a, T b) {
  if constexpr (std::is_same_v<T, Bool>) {
    const bool left = a.byte != 0, right = b.byte != 0;
    return Traits<Bool>::store(kOp == kSum || kOp == kMax ? left || right : left && right);
  } else if constexpr (!std::is_integral_v<T>) {
    return Traits<T>::store(apply<kOp>(Traits<T>::load(a), Traits<T>::load(b)));
  } else {
    if (kOp == kMin || kOp == kMax) return apply<kOp, T>(a, b);
    return static_cast<T>(apply<kOp, Word>(static_cast<Word>(a), static_cast<Word>(b)));
  }
}

template <typename T>
union Pack {
  uint4 whole;
  T parts[16 / sizeof(T)];
  __device__ Pack() {}
};

template <int kOp, typename T>
__device__ void reduce(const ReduceArguments& arguments) {
  const Word first = Word{blockIdx.x} * kBlockElements;
  const Word count = arguments.count - first < kBlockElements ? arguments.count - first : kBlockElements;
  T* to = reinterpret_cast<T*>(arguments.to) + first;
  const T* a = reinterpret_cast<const T*>(arguments.a) + first;
  const T* b = reinterpret_cast<const T*>(arguments.b) + first;
  constexpr unsigned kWidth = 16 / sizeof(T);
  Word done = 0;
  if ((arguments.to | arguments.a | arguments.b) % 16 == 0) {
    done = count / kWidth * kWidth;
    for (Word i = threadIdx.x; i < count / kWidth; i += blockDim.x) {
      Pack<T> left, right;
      left.whole = reinterpret_cast<const uint4*>(a)[i];
      right.whole = reinterpret_cast<const uint4*>(b)[i];
#pragma unroll
      for (unsigned j = 0; j < kWidth; ++j) left.parts[j] = combine<kOp, T>(left.parts[j], right.parts[j]);
      reinterpret_cast<uint4*>(to)[i] = left.whole;
    }
  }
  for (Word i = done + threadIdx.x; i < count; i += blockDim.x) to[i] = combine<kOp, T>(a[i], b[i]);
}

template <typename T>
__device__ void reduce_by(const ReduceArguments& arguments) {
  switch (arguments.op) {
    case kSum:
      return reduce<kSum, T>(arguments);
    case kMin:
      return reduce<kMin, T>(arguments);
    case kMax:
      return reduce<kMax, T>(arguments);
    case kProduct:
      return reduce<kProduct, T>(arguments);
  }
}

}  // namespace

extern "C" __global__ void roda_pack(PackArguments arguments) { move(arguments, true); }
extern "C" __global__ void roda_unpack(PackArguments arguments) { move(arguments, false); }
extern "C" __global__ void roda_pack_scaled(PackScaledArguments arguments) { move_scaled(arguments, true); }
extern "C" __global__ void roda_unpack_scaled(PackScaledArguments arguments) { move_scaled(arguments, false); }

extern "C" __global__ void roda_widen(AverageArguments arguments) { widen(arguments); }
extern "C" __global__ void roda_average(AverageArguments arguments) { average(arguments); }

extern "C" __global__ void roda_scale(ScaleArguments arguments) {
  const Word first = Word{blockIdx.x} * kBlockElements;
  const Word count = arguments.count - first < kBlockElements ? arguments.count - first : kBlockElements;
  scale({arguments.data, arguments.data, first, count, arguments.factor}, arguments.dtype);
}

extern "C" __global__ void roda_reduce(ReduceArguments arguments) {
  with_type(arguments.dtype, [&](auto type) { reduce_by<typename decltype(type)::Of>(arguments); });
}
