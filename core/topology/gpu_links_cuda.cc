// CUDA's driver library, where NVML is missing (some containers, integrated boards).
#include <dlfcn.h>

#include <cctype>

#include "core/topology/gpu_links.h"
#include "plugins/base/format.h"

namespace roda::topology {

namespace {

// Declared after the published reference of the driver API, as NVML is.
struct Cuda {
  int (*init)(unsigned flags) = nullptr;
  int (*device_count)(int*) = nullptr;
  int (*device)(int* device, int ordinal) = nullptr;
  int (*name)(char*, int bytes, int device) = nullptr;
  int (*pci_bus_id)(char*, int bytes, int device) = nullptr;
  int (*total_memory)(std::size_t*, int device) = nullptr;
  int (*attribute)(int*, int attribute, int device) = nullptr;
  int (*can_access_peer)(int*, int device, int peer) = nullptr;
};
constexpr int kCapabilityMajor = 75;
constexpr int kCapabilityMinor = 76;

template <typename Function>
bool look_up(void* handle, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(::dlsym(handle, name));
  return *function != nullptr;
}

Status open(const std::string& file, Cuda* cuda) {
  void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return Status::unavailable(roda::format("CUDA's driver can't be opened: {}", why != nullptr ? why : file));
  }
  const bool has_all =
      look_up(handle, "cuInit", &cuda->init) && look_up(handle, "cuDeviceGetCount", &cuda->device_count) &&
      look_up(handle, "cuDeviceGet", &cuda->device) && look_up(handle, "cuDeviceGetName", &cuda->name) &&
      look_up(handle, "cuDeviceGetPCIBusId", &cuda->pci_bus_id) &&
      look_up(handle, "cuDeviceTotalMem_v2", &cuda->total_memory) &&
      look_up(handle, "cuDeviceGetAttribute", &cuda->attribute) &&
      look_up(handle, "cuDeviceCanAccessPeer", &cuda->can_access_peer);
  return has_all ? Status() : Status::unavailable(file + " is no driver library of CUDA");
}

Status checked(const char* call, int result) {
  return result == 0 ? Status() : Status::unavailable(roda::format("{} failed with {}", call, result));
}

Status read_gpu(const Cuda& cuda, int device, int count, Gpu* gpu) {
  char text[96] = "";
  RODA_RETURN_IF_ERROR(checked("cuDeviceGetPCIBusId", cuda.pci_bus_id(text, sizeof text, device)));
  gpu->pci.address = text;
  for (char& c : gpu->pci.address) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (cuda.name(text, sizeof text, device) == 0) gpu->model = text;
  std::size_t bytes = 0;
  if (cuda.total_memory(&bytes, device) == 0) gpu->memory_gib = static_cast<std::int64_t>((bytes + (1ull << 29)) >> 30);
  int major = 0, minor = 0;
  if (cuda.attribute(&major, kCapabilityMajor, device) == 0 && cuda.attribute(&minor, kCapabilityMinor, device) == 0) {
    gpu->compute_capability = roda::format("{}.{}", major, minor);
  }
  for (int peer = 0; peer < count; ++peer) {
    int other = 0, can = 0;
    if (peer == device || cuda.device(&other, peer) != 0) continue;
    if (cuda.can_access_peer(&can, device, other) == 0 && can != 0) gpu->peers.push_back(peer);
  }
  return {};
}

}  // namespace

Status ask_cuda(const std::string& file, Machine* machine) {
  Cuda cuda;
  RODA_RETURN_IF_ERROR(open(file, &cuda));
  int count = 0;
  RODA_RETURN_IF_ERROR(checked("cuInit", cuda.init(0)));
  RODA_RETURN_IF_ERROR(checked("cuDeviceGetCount", cuda.device_count(&count)));
  std::vector<Gpu> gpus(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    int device = 0;
    RODA_RETURN_IF_ERROR(checked("cuDeviceGet", cuda.device(&device, i)));
    RODA_RETURN_IF_ERROR(read_gpu(cuda, device, count, &gpus[static_cast<std::size_t>(i)]));
  }
  keep_places(*machine, &gpus);
  machine->gpus = std::move(gpus);
  return {};
}

}  // namespace roda::topology
