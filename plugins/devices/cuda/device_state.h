// What this process keeps for each GPU that it uses: the kernels, tables of arguments under way, events, the budget.
#pragma once

#include <roda/abi/device.h>

#include <map>
#include <memory>
#include <string>

#include "plugins/base/cuda/devices.h"
#include "plugins/base/mutex.h"
#include "plugins/devices/cuda/kernels.h"
#include "plugins/devices/cuda/tables.h"

namespace roda::cuda_device {

// One GPU. Any thread.
class Gpu {
 public:
  Gpu(const cuda::Driver& driver, int device, cuda::Context context);

  int device() const { return device_; }
  cuda::Context context() const { return context_; }
  Kernels& kernels() { return kernels_; }
  Tables& tables() { return tables_; }
  // For callers that name no stream.
  Status own_stream(cuda::Stream* stream);

  // The budget: false when the bytes do not fit it.
  bool hold(std::uint64_t bytes, std::uint64_t limit);
  void let_go(std::uint64_t bytes);
  std::uint64_t held();

 private:
  const cuda::Driver& driver_;
  const int device_;
  const cuda::Context context_;
  Kernels kernels_;
  Tables tables_;
  Mutex mutex_;
  cuda::Stream stream_ RODA_GUARDED_BY(mutex_) = nullptr;
  std::uint64_t held_ RODA_GUARDED_BY(mutex_) = 0;
};

// All of them. Lives as long as the process.
class State {
 public:
  static State& get();

  // Opens the driver and reads the settings; once.
  Status start(const roda_host* host);
  // Null before start().
  const cuda::Driver* driver() const { return driver_; }
  std::uint64_t limit() const { return limit_; }
  // Makes its context if need be.
  Status gpu(int device, Gpu** gpu);
  Status gpu_of(cuda::Context context, Gpu** gpu);

 private:
  Mutex mutex_;
  const cuda::Driver* driver_ = nullptr;
  std::uint64_t limit_ = 0;
  std::map<int, std::unique_ptr<Gpu>> gpus_ RODA_GUARDED_BY(mutex_);
};

// Where an entry's work goes: the GPU, its context made current, and a stream.
class Place {
 public:
  // With a stream the stream says which GPU; without one the address does.
  Status find(void* stream, const void* address, const std::string& what);
  // After the work: waits for it if the caller named no stream.
  Status finish(const std::string& what);
  Gpu& gpu() { return *gpu_; }
  cuda::Stream stream() const { return stream_; }

 private:
  Gpu* gpu_ = nullptr;
  cuda::Stream stream_ = nullptr;
  bool is_own_ = false;
  std::unique_ptr<cuda::ContextScope> scope_;
};

}  // namespace roda::cuda_device
