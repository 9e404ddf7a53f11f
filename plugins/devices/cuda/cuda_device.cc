#include "plugins/devices/cuda/cuda_device.h"

#include <cstdio>

#include "plugins/devices/cuda/device_state.h"
#include "plugins/devices/cuda/entries.h"

namespace roda::cuda_device {
namespace {

char description[256] = "GPUs by the CUDA driver, opened at run time";

// Does not start CUDA: processes that are forked later can still use it.
int32_t probe(const roda_host* host, roda_error* error) {
  const Status status = State::get().start(host);
  if (!status.ok()) return status.to(error);
  const cuda::Driver& driver = *State::get().driver();
  std::snprintf(description, sizeof description, "GPUs, %s %s by the driver; %s", driver.vendor(),
                cuda::version_text(driver.version).c_str(), kernels_built().c_str());
  return RODA_OK;
}

roda_device make_table() {
  roda_device table{};
  table.struct_size = sizeof table;
  table.abi_version = RODA_ABI_VERSION;
  table.name = "cuda";
  table.description = description;
  table.memory_kind = RODA_MEMORY_CUDA;
  table.probe = probe;
  table.alloc = alloc;
  table.free = release;
  table.copy = copy;
  table.reduce = reduce;
  table.scale = scale;
  table.pack = pack;
  table.unpack = unpack;
  table.stream_create = stream_create;
  table.stream_destroy = stream_destroy;
  table.event_record = event_record;
  table.event_test = event_test;
  table.event_wait = event_wait;
  table.event_release = event_release;
  table.pack_scaled = pack_scaled;
  table.unpack_scaled = unpack_scaled;
  table.alloc_staging = alloc_staging;
  table.device_of = device_of;
  table.event_record_on = event_record_on;
  table.stream_check = stream_check;
  table.alloc_on = alloc_on;
  table.free_on = release_on;
  return table;
}

}  // namespace
}  // namespace roda::cuda_device

const roda_device* roda_cuda_device(void) {
  static const roda_device table = roda::cuda_device::make_table();
  return &table;
}
