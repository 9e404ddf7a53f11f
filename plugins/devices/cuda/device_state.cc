#include "plugins/devices/cuda/device_state.h"

#include <algorithm>
#include <cstdlib>

namespace roda::cuda_device {

Gpu::Gpu(const cuda::Driver& driver, int device, cuda::Context context)
    : driver_(driver), device_(device), context_(context), kernels_(driver), tables_(driver) {}

Status Gpu::own_stream(cuda::Stream* stream) {
  const MutexLock lock(mutex_);
  if (stream_ == nullptr) {
    const cuda::ContextScope scope(driver_, context_);
    RODA_RETURN_IF_ERROR(
        driver_.check(driver_.StreamCreate(&stream_, cuda::kStreamNonBlocking, 0), "cuStreamCreateWithPriority"));
  }
  *stream = stream_;
  return {};
}

bool Gpu::hold(std::uint64_t bytes, std::uint64_t limit) {
  const MutexLock lock(mutex_);
  if (limit != 0 && (held_ > limit || bytes > limit - held_)) return false;
  held_ += bytes;
  return true;
}

void Gpu::let_go(std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  held_ -= bytes;
}

std::uint64_t Gpu::held() {
  const MutexLock lock(mutex_);
  return held_;
}

State& State::get() {
  static auto* state = new State;  // events and memory may outlive main
  return *state;
}

Status State::start(const roda_host* host) {
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

Status State::gpu(int device, Gpu** gpu) {
  if (driver_ == nullptr) return Status::precondition("CUDA: used before its probe");
  cuda::Context context = nullptr;
  RODA_RETURN_IF_ERROR(cuda::Devices::get(*driver_).context(device, &context));
  const MutexLock lock(mutex_);
  std::unique_ptr<Gpu>& known = gpus_[device];
  if (known == nullptr) known = std::make_unique<Gpu>(*driver_, device, context);
  *gpu = known.get();
  return {};
}

Status State::gpu_of(cuda::Context context, Gpu** gpu) {
  const cuda::ContextScope scope(*driver_, context);
  cuda::Ordinal device = -1;
  RODA_RETURN_IF_ERROR(driver_->check(driver_->ContextGetDevice(&device), "cuCtxGetDevice"));
  return this->gpu(device, gpu);
}

Status Place::find(void* stream, const void* address, const std::string& what) {
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

Status Place::finish(const std::string& what) {
  if (!is_own_) return {};
  const cuda::Driver& driver = *State::get().driver();
  return driver.check(driver.StreamSynchronize(stream_), what);
}

}  // namespace roda::cuda_device
