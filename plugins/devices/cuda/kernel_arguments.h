// What the kernels are given: one struct each, by value. Read by the host, by kernels.cu and by the tests' double, so
// it holds plain numbers and addresses only.
#pragma once

namespace roda::cuda_device {

using Word = unsigned long long;

// What the kernels compute with, by the numbers of roda_dtype.
enum Dtype { kU8, kI8, kU16, kI16, kI32, kI64, kF16, kF32, kF64, kBool, kBf16, kDtypes };

inline constexpr unsigned kThreads = 256;
// What one block copies; what one block computes.
inline constexpr Word kBlockBytes = 32 * 1024;
inline constexpr Word kBlockElements = 4 * 1024;

// One tensor of a bucket. Its blocks are numbered from first_block on; a table is in that order.
struct Segment {
  Word tensor;       // address
  Word offset;       // in the buffer, bytes
  Word length;       // bytes for copies, elements for scaled ones
  Word first_block;  // of the launch
};

// roda_pack, roda_unpack: bytes between the tensors and the buffer.
struct PackArguments {
  Word buffer;    // address
  Word segments;  // address of the table, in the device's memory
  unsigned count;
  unsigned padding;
};

// roda_pack_scaled, roda_unpack_scaled: buffer[i] = tensor[i] * factor, and the reverse.
struct PackScaledArguments {
  Word buffer;
  Word segments;
  unsigned count;
  int dtype;
  double factor;
};

// roda_scale: data[i] = data[i] * factor.
struct ScaleArguments {
  Word data;
  Word count;
  int dtype;
  int padding;
  double factor;
};

// roda_widen, roda_average: between whole numbers and what their sums are taken in.
struct AverageArguments {
  Word values;
  Word sums;
  Word count;
  int dtype;
  int members;
  double postscale;
};

// roda_reduce: to[i] = a[i] (op) b[i].
struct ReduceArguments {
  Word to;
  Word a;
  Word b;
  Word count;
  int dtype;
  int op;
};

}  // namespace roda::cuda_device
