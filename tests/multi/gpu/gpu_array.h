// Memory of a GPU for tests that run inside every rank of a job. The GPU is whatever driver the job is given; in this
// project's tests that is the CUDA DOUBLE of tests/doubles (host memory), which proves nothing about a GPU.
#pragma once

#include <roda/abi/device.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/multi/engine/rank.h"

namespace roda::test {

// The device plugin that the job itself has loaded, from the file that GPU_TEST_DEVICE names. After init.
const roda_device& gpu_device();
// The GPU of this rank. Hosts of these tests are one machine, on which every rank has its own, unless GPU_TEST_GPU
// names one for all.
std::int32_t own_gpu();
// A stream of this process for its own work on the GPU.
void* own_stream(std::int32_t gpu);

// A host vector's copy on a GPU, written on own_stream: complete only in that stream's order.
class GpuArray {
 public:
  GpuArray(const void* data, std::size_t bytes, std::int32_t gpu = own_gpu());
  ~GpuArray();
  GpuArray(const GpuArray&) = delete;
  GpuArray& operator=(const GpuArray&) = delete;
  void* data() const { return memory_.address; }

  // In the order of own_stream.
  template <typename T>
  std::vector<T> read() const {
    std::vector<T> values(bytes_ / sizeof(T));
    read_to(values.data());
    return values;
  }

 private:
  void read_to(void* to) const;
  std::vector<char> source_;  // of the copy, which may come late
  roda_memory memory_{};
  std::size_t bytes_;
  std::int32_t gpu_;
};

template <typename T>
GpuArray on_gpu(const std::vector<T>& values, std::int32_t gpu = own_gpu()) {
  return GpuArray(values.data(), values.size() * sizeof(T), gpu);
}

// What lies at an address of a GPU; complete.
void read_gpu(const void* address, std::size_t bytes, std::int32_t gpu, void* to);

// make_op for a tensor on the GPU that own_stream gives its value.
template <typename Name>
roda_op gpu_op(int collective, const Name& name, const std::vector<std::int64_t>& shape, const void* input,
               void* output, int dtype = RODA_FLOAT32, std::int32_t gpu = own_gpu()) {
  roda_op op = make_op(collective, name, shape, input, output, dtype);
  op.device = gpu;
  op.stream = own_stream(gpu);
  return op;
}

// After a wait of the host's, or an error: what the engine has seen to be over the program may use. For the double.
void wait_for_engine();

// As wait() and run(); own_stream is told to wait, and what is read in its order is complete.
Outcome wait_on_stream(roda_handle handle, std::int32_t gpu = own_gpu());
Outcome run_gpu(const roda_op& op, std::int32_t gpu = own_gpu());

}  // namespace roda::test
