// Several tensors as one: how a bucket lies in its buffer, and the copies in and out.
//
//   allreduce       back to back in order, each tensor beginning on a 64-byte line or a coarser grain; gaps may be
//                   zeroed
//   allgather       rank-major blocks, inside a rank the tensors in order
//   reduce-scatter  rank-major slices of every tensor
//
// Threads: one at a time. Lists are kept and reused: no allocation once a bucket of that size was seen.
#pragma once

#include <roda/abi/device.h>

#include <cstddef>
#include <vector>

#include "core/execute/device_queue.h"
#include "core/execute/memory.h"
#include "core/execute/trace.h"
#include "plugins/base/status.h"

namespace roda::execute {

// One rank's part in a tensor of a bucket. A joined rank has neither input nor output: it gives zeros and drops the
// result.
struct BucketTensor {
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;  // allreduce: elements
  // [size] allgather: elements of each rank; reduce-scatter: elements that each rank keeps.
  const std::size_t* counts = nullptr;
};

// Elements from the beginning of an allreduce's tensor to that of the next one in the buffer, which begins on a
// multiple of `grain` bytes.
std::size_t aligned_elements(std::size_t count, int dtype, std::size_t grain = kLine);

class Bucket {
 public:
  // From the next layout on the copies and the scaling go there; in host memory before that.
  void use(const DeviceQueue& queue) { queue_ = queue; }
  // `trace` is told when the bucket packs and unpacks; null: none is.
  void tell(Trace* trace) { trace_ = trace; }

  // Lay the tensors out. The pointers are taken; nothing is copied yet. Tensors of dtype `dtype` each, in the agreed
  // order; equal counts on all ranks.
  // `zeroes_gaps` false: what lies between the tensors of an allreduce's buffer is left as it is, as nobody reads it.
  void lay_out_allreduce(const BucketTensor* tensors, std::size_t count, int dtype, bool zeroes_gaps = true,
                         std::size_t grain = kLine);
  // RODA_ALLGATHER or RODA_REDUCESCATTER.
  void lay_out_blocks(int collective, const BucketTensor* tensors, std::size_t count, int dtype, int rank, int size);

  // Length of the buffer that holds everything, in elements of the dtype. reduce-scatter: of the input; the output is
  // recv_counts()[rank] long and needs a place of its own.
  std::size_t elements() const { return elements_; }
  std::size_t bytes() const { return elements_ * roda_dtype_size(dtype_); }
  // Per rank, allgather and reduce-scatter: what StageArgs::recv_counts wants.
  const std::size_t* recv_counts() const { return recv_counts_.data(); }
  // allgather: where this rank's block begins in the buffer, in elements.
  std::size_t own_begin() const { return own_begin_; }

  // Inputs into `buffer`, then times `prescale` unless it is 1.
  Status pack(void* buffer, double prescale);
  // Packs or unpacks bytes [begin, begin + bytes) of the buffer alone, which lie at `part`: a stage that moves slices
  // packs, scales and unpacks each while it is in the cache. allreduce in host memory only.
  // `far`: past the cache, for a peer on a far core.
  Status pack_part(void* part, std::size_t begin, std::size_t bytes, double prescale, bool far = false);
  Status unpack_part(void* part, std::size_t begin, std::size_t bytes, double postscale);
  // True when the range is a part of one tensor, and where that part is: it need not be packed then.
  bool lies_in_one_tensor(std::size_t begin, std::size_t bytes, const void** input, void** output) const;
  Status scale(void* data, std::size_t bytes, double factor) const {
    return queue_.scale(data, bytes / roda_dtype_size(dtype_), dtype_, factor);
  }
  // `buffer` (reduce-scatter: this rank's result) times `postscale` unless it is 1, then out to the outputs.
  Status unpack(void* buffer, double postscale);

 private:
  void begin(int dtype);
  void add_in(const void* tensor, std::size_t offset, std::size_t bytes);
  void add_out(void* tensor, std::size_t offset, std::size_t bytes);
  Status zero(const std::vector<roda_pack_item>& items, void* buffer) const;
  const std::vector<roda_pack_item>& clip(const std::vector<roda_pack_item>& items, std::size_t begin,
                                          std::size_t bytes);

  DeviceQueue queue_;
  Trace* trace_ = nullptr;
  int dtype_ = RODA_FLOAT32;
  std::size_t elements_ = 0;
  std::size_t own_begin_ = 0;
  std::size_t own_elements_ = 0;  // packed by this rank, from own_begin_ on
  std::size_t out_elements_ = 0;  // of the buffer given to unpack()
  std::vector<std::size_t> recv_counts_;
  std::vector<std::size_t> written_;  // per tensor: bytes already laid out of its earlier ranks' parts
  std::vector<roda_pack_item> in_;
  std::vector<roda_pack_item> out_;
  std::vector<roda_pack_item> zeros_;
  std::vector<roda_pack_item> clipped_;
};

}  // namespace roda::execute
