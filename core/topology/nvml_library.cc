#include "core/topology/nvml_library.h"

#include <dlfcn.h>

#include "plugins/base/format.h"

namespace roda::topology::nvml {

namespace {

template <typename Function>
bool look_up(void* handle, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(::dlsym(handle, name));
  return *function != nullptr;
}

}  // namespace

Status Library::open(const std::string& file, Library* library) {
  void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return Status::unavailable(roda::format("NVML can't be opened: {}", why != nullptr ? why : file));
  }
  const bool has_all = look_up(handle, "nvmlInit_v2", &library->init) &&
                       look_up(handle, "nvmlShutdown", &library->shutdown) &&
                       look_up(handle, "nvmlErrorString", &library->error_string) &&
                       look_up(handle, "nvmlDeviceGetCount_v2", &library->device_count) &&
                       look_up(handle, "nvmlDeviceGetHandleByIndex_v2", &library->device) &&
                       look_up(handle, "nvmlDeviceGetName", &library->name) &&
                       look_up(handle, "nvmlDeviceGetPciInfo_v3", &library->pci_info) &&
                       look_up(handle, "nvmlDeviceGetMemoryInfo", &library->memory_info) &&
                       look_up(handle, "nvmlDeviceGetCudaComputeCapability", &library->compute_capability);
  look_up(handle, "nvmlDeviceGetNvLinkState", &library->link_state);
  look_up(handle, "nvmlDeviceGetNvLinkVersion", &library->link_version);
  look_up(handle, "nvmlDeviceGetNvLinkRemotePciInfo_v2", &library->link_remote_pci);
  look_up(handle, "nvmlDeviceGetNvLinkRemoteDeviceType", &library->link_remote_type);
  look_up(handle, "nvmlDeviceGetP2PStatus", &library->p2p_status);
  return has_all ? Status() : Status::unavailable(roda::format("{} lacks functions of NVML 11", file));
}

}  // namespace roda::topology::nvml
