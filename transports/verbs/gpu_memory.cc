#include "transports/verbs/gpu_memory.h"

#include <roda/sdk/error.hpp>

#include "plugins/base/cuda/devices.h"

namespace roda::verbs {
namespace {

constexpr std::size_t kTrialBytes = std::size_t{64} << 10;
constexpr unsigned kAllDevices = ~0u;

bool can_register(const Devices& devices, void* base) {
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  try {
    Registration trial(devices, kAllDevices, base, kTrialBytes, kAccess, RODA_MEMORY_CUDA);
    trial.release();
    return true;
  } catch (const sdk::Failure&) {
    return false;
  }
}

}  // namespace

bool reaches_gpu(const roda_host* host, const Devices& devices, int gpu) {
  const cuda::Driver* driver = nullptr;
  const char* file = host == nullptr ? nullptr : host->knob(host->self, "RODA_CUDA_LIBRARY");
  if (!cuda::Driver::open(file, &driver).ok()) return false;
  cuda::Context context = nullptr;
  if (!cuda::Devices::get(*driver).context(gpu, &context).ok()) return false;
  const cuda::ContextScope scope(*driver, context);
  cuda::Address address{};
  if (driver->MemAlloc(&address, kTrialBytes) != cuda::kSuccess) return false;
  const bool is_reached = can_register(devices, reinterpret_cast<void*>(address));
  driver->MemFree(address);
  return is_reached;
}

}  // namespace roda::verbs
