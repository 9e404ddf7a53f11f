// What this process keeps for each GPU that it uses: the kernels, tables of arguments under way, events, the budget.
#pragma once

#include <roda/abi/device.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plugins/base/cuda/devices.h"
#include "plugins/base/mutex.h"
#include "plugins/devices/cuda/kernels.h"
#include "plugins/devices/cuda/tables.h"

namespace roda::cuda_device {

// One GPU. Any thread.
class Gpu {
 public:
  Gpu(const cuda::Driver& driver, int device, cuda::Context context)
      : driver_(driver), device_(device), context_(context), kernels_(driver), tables_(driver) {}

  int device() const { return device_; }
  cuda::Context context() const { return context_; }
  Kernels& kernels() { return kernels_; }
  Tables& tables() { return tables_; }
  // For callers that name no stream.
  Status own_stream(cuda::Stream* stream) {
    const MutexLock lock(mutex_);
    if (stream_ == nullptr) {
      const cuda::ContextScope scope(driver_, context_);
      RODA_RETURN_IF_ERROR(
          driver_.check(driver_.StreamCreate(&stream_, cuda::kStreamNonBlocking, 0), "cuStreamCreateWithPriority"));
    }
    *stream = stream_;
    return {};
  }

  // What the ABI's event points to: made once and used again.
  struct Marker {
    Gpu* gpu;
    cuda::Event event;
  };
  // The GPU's context is current.
  Status take(Marker** marker) {
    {
      const MutexLock lock(mutex_);
      if (!markers_.empty()) {
        *marker = markers_.back();
        markers_.pop_back();
        return {};
      }
    }
    cuda::Event event = nullptr;
    RODA_RETURN_IF_ERROR(driver_.check(driver_.EventCreate(&event, cuda::kEventDisableTiming), "cuEventCreate"));
    *marker = new Marker{this, event};
    return {};
  }
  void give_back(Marker* marker) {
    const MutexLock lock(mutex_);
    markers_.push_back(marker);
  }

  // The budget: false when the bytes do not fit it.
  bool hold(std::uint64_t bytes, std::uint64_t limit) {
    const MutexLock lock(mutex_);
    if (limit != 0 && (held_ > limit || bytes > limit - held_)) return false;
    held_ += bytes;
    return true;
  }
  void let_go(std::uint64_t bytes) {
    const MutexLock lock(mutex_);
    held_ -= bytes;
  }
  std::uint64_t held() {
    const MutexLock lock(mutex_);
    return held_;
  }

 private:
  const cuda::Driver& driver_;
  const int device_;
  const cuda::Context context_;
  Kernels kernels_;
  Tables tables_;
  Mutex mutex_;
  cuda::Stream stream_ RODA_GUARDED_BY(mutex_) = nullptr;
  std::vector<Marker*> markers_ RODA_GUARDED_BY(mutex_);
  std::uint64_t held_ RODA_GUARDED_BY(mutex_) = 0;
};

// All of them. Lives as long as the process.
class State {
 public:
  static State& get() {
    static auto* state = new State;  // events and memory may outlive main
    return *state;
  }

  // Opens the driver and reads the settings; once.
  Status start(const roda_host* host) {
    const MutexLock lock(mutex_);
    if (driver_ != nullptr) return {};
    if (const char* text = host->knob(host->self, "RODA_TEST_CUDA_MEMORY_LIMIT"); text != nullptr && *text != '\0') {
      char* end = nullptr;
      limit_ = std::strtoull(text, &end, 10);
      if (*end != '\0') {
        return Status::invalid(std::string("RODA_TEST_CUDA_MEMORY_LIMIT='") + text + "' is not a number of bytes");
      }
    }
    return cuda::Driver::open(host->knob(host->self, "RODA_TEST_CUDA_LIBRARY"), &driver_);
  }
  // Null before start().
  const cuda::Driver* driver() const { return driver_; }
  std::uint64_t limit() const { return limit_; }
  // As <roda/abi/device.h> says.
  int device_of(const void* address) const {
    return driver_ == nullptr ? -1 : cuda::Devices::get(*driver_).device_of(address);
  }
  // Makes its context if need be.
  Status gpu(int device, Gpu** gpu) {
    if (driver_ == nullptr) return Status::precondition("CUDA: used before its probe");
    cuda::Context context = nullptr;
    RODA_RETURN_IF_ERROR(cuda::Devices::get(*driver_).context(device, &context));
    const MutexLock lock(mutex_);
    std::unique_ptr<Gpu>& known = gpus_[device];
    if (known == nullptr) known = std::make_unique<Gpu>(*driver_, device, context);
    *gpu = known.get();
    return {};
  }
  Status gpu_of(cuda::Context context, Gpu** gpu) {
    const cuda::ContextScope scope(*driver_, context);
    cuda::Ordinal device = -1;
    RODA_RETURN_IF_ERROR(driver_->check(driver_->ContextGetDevice(&device), "cuCtxGetDevice"));
    return this->gpu(device, gpu);
  }

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
  Status find(void* stream, const void* address, const std::string& what) {
    State& state = State::get();
    const cuda::Driver* driver = state.driver();
    if (driver == nullptr) return Status::precondition("CUDA: used before its probe");
    is_own_ = stream == nullptr;
    if (is_own_) {
      const int device = cuda::Devices::get(*driver).device_of(address);
      if (device < 0) return Status::invalid("CUDA: " + what + ": the memory is on no GPU, and no stream was named");
      RODA_RETURN_IF_ERROR(state.gpu(device, &gpu_));
      RODA_RETURN_IF_ERROR(gpu_->own_stream(&stream_));
      scope_ = std::make_unique<cuda::ContextScope>(*driver, gpu_->context());
    } else {
      stream_ = static_cast<cuda::Stream>(stream);
      cuda::Context context = nullptr;
      RODA_RETURN_IF_ERROR(driver->check(driver->StreamGetContext(stream_, &context), what + ": the stream"));
      RODA_RETURN_IF_ERROR(state.gpu_of(context, &gpu_));
      scope_ = std::make_unique<cuda::ContextScope>(*driver, context);
    }
    return cuda::check_stream(*driver, stream_, what);
  }
  // After the work: waits for it if the caller named no stream.
  Status finish(const std::string& what) {
    if (!is_own_) return {};
    const cuda::Driver& driver = *State::get().driver();
    return driver.check(driver.StreamSynchronize(stream_), what);
  }
  Gpu& gpu() { return *gpu_; }
  cuda::Stream stream() const { return stream_; }

 private:
  Gpu* gpu_ = nullptr;
  cuda::Stream stream_ = nullptr;
  bool is_own_ = false;
  std::unique_ptr<cuda::ContextScope> scope_;
};

// The entries that move and compute: copies, packing, scaling, reductions.
void add_compute(roda_device* table);

}  // namespace roda::cuda_device
