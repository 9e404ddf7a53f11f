// The few functions that are used of NVML are declared here after its published reference: its header comes with a
// toolkit that a machine that builds need not have. NVML is never closed.
#include "core/topology/kernel_files.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>

#include "plugins/base/cuda/driver.h"
#include "plugins/base/format.h"
#include "plugins/base/status.h"
#include "plugins/base/symbols.h"

namespace roda::topology {
namespace {

std::int64_t to_gib(unsigned long long bytes) { return static_cast<std::int64_t>((bytes + (1ull << 29)) >> 30); }

// --- NVML -----------------------------------------------------------------------------------------------------------

using Device = struct DeviceOpaque*;

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  char bus_id[32];

  std::string address() const { return roda::format("{:04x}:{:02x}:{:02x}.0", domain, bus, device); }
};

struct Memory {
  unsigned long long total;  // bytes
  unsigned long long free;
  unsigned long long used;
};

constexpr unsigned kMostLinks = 18;
constexpr int kRemoteSwitch = 2, kRemoteUnknown = 255;
constexpr int kReadPeer = 0, kPeerOk = 0;

// NVML between init and shutdown, and its devices. All but error_string return 0 for success.
class Nvml {
 public:
  Nvml() = default;
  ~Nvml() {
    if (is_started_) shutdown_();
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  Status start(const std::string& file) {
    void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return Status::unavailable(roda::format("NVML can't be opened: {}", ::dlerror()));
    const bool has_all = look_up(handle, "nvmlInit_v2", &init_) && look_up(handle, "nvmlShutdown", &shutdown_) &&
                         look_up(handle, "nvmlErrorString", &error_string_) &&
                         look_up(handle, "nvmlDeviceGetCount_v2", &device_count_) &&
                         look_up(handle, "nvmlDeviceGetHandleByIndex_v2", &device_) &&
                         look_up(handle, "nvmlDeviceGetName", &name_) &&
                         look_up(handle, "nvmlDeviceGetPciInfo_v3", &pci_info_) &&
                         look_up(handle, "nvmlDeviceGetMemoryInfo", &memory_info_) &&
                         look_up(handle, "nvmlDeviceGetCudaComputeCapability", &compute_capability_);
    if (!has_all) return Status::unavailable(roda::format("{} lacks functions of NVML 11", file));
    look_up(handle, "nvmlDeviceGetNvLinkState", &link_state_);
    look_up(handle, "nvmlDeviceGetNvLinkVersion", &link_version_);
    look_up(handle, "nvmlDeviceGetNvLinkRemotePciInfo_v2", &link_remote_pci_);
    look_up(handle, "nvmlDeviceGetNvLinkRemoteDeviceType", &link_remote_type_);
    look_up(handle, "nvmlDeviceGetP2PStatus", &p2p_status_);
    RODA_RETURN_IF_ERROR(checked("nvmlInit_v2", init_()));
    is_started_ = true;
    unsigned count = 0;
    RODA_RETURN_IF_ERROR(checked("nvmlDeviceGetCount_v2", device_count_(&count)));
    devices_.resize(count);
    for (unsigned i = 0; i < count; ++i) {
      RODA_RETURN_IF_ERROR(checked("nvmlDeviceGetHandleByIndex_v2", device_(i, &devices_[i])));
    }
    return {};
  }

  Status read_gpus(std::vector<Gpu>* gpus) const {
    for (const Device device : devices_) {
      PciInfo pci{};
      RODA_RETURN_IF_ERROR(checked("nvmlDeviceGetPciInfo_v3", pci_info_(device, &pci)));
      Gpu& gpu = gpus->emplace_back();
      gpu.pci.address = pci.address();
      char name[96] = "";
      if (name_(device, name, sizeof name) == 0) gpu.model = name;
      Memory memory{};
      if (memory_info_(device, &memory) == 0) gpu.memory_gib = to_gib(memory.total);
      int major = 0, minor = 0;
      if (compute_capability_(device, &major, &minor) == 0) {
        gpu.compute_capability = roda::format("{}.{}", major, minor);
      }
    }
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      read_links(i, gpus);
      read_peers(i, &(*gpus)[i]);
    }
    return {};
  }

 private:
  Status checked(const char* call, int result) const {
    if (result == 0) return {};
    const char* why = error_string_(result);
    return Status::unavailable(roda::format("{}: {}", call, why != nullptr ? why : "unknown error"));
  }

  // A link is asked until one does not exist.
  void read_links(std::size_t index, std::vector<Gpu>* gpus) const {
    if (link_state_ == nullptr || link_remote_pci_ == nullptr) return;
    int is_active = 0;
    for (unsigned link = 0; link < kMostLinks && link_state_(devices_[index], link, &is_active) == 0; ++link) {
      if (is_active != 0) add_link(index, link, gpus);
    }
  }

  void add_link(std::size_t index, unsigned link, std::vector<Gpu>* gpus) const {
    Gpu& gpu = (*gpus)[index];
    unsigned version = 0;
    if (link_version_ != nullptr && link_version_(devices_[index], link, &version) == 0) {
      gpu.nvlink_version = static_cast<int>(version);
    }
    PciInfo remote{};
    if (link_remote_pci_(devices_[index], link, &remote) != 0) return;
    const auto peer =
        std::ranges::find_if(*gpus, [&](const Gpu& other) { return other.pci.address == remote.address(); });
    if (peer != gpus->end()) {
      ++gpu.peer_links[static_cast<int>(peer - gpus->begin())];
      return;
    }
    // A virtual machine may not see the switches: the other end is then unknown, but it is no GPU.
    int type = kRemoteUnknown;
    if (link_remote_type_ != nullptr) link_remote_type_(devices_[index], link, &type);
    if (type == kRemoteSwitch || type == kRemoteUnknown) ++gpu.switch_links;
  }

  void read_peers(std::size_t index, Gpu* gpu) const {
    for (std::size_t peer = 0; p2p_status_ != nullptr && peer < devices_.size(); ++peer) {
      int status = -1;
      if (peer == index || p2p_status_(devices_[index], devices_[peer], kReadPeer, &status) != 0) continue;
      if (status == kPeerOk) gpu->peers.push_back(static_cast<int>(peer));
    }
  }

  int (*init_)() = nullptr;
  int (*shutdown_)() = nullptr;
  const char* (*error_string_)(int) = nullptr;
  int (*device_count_)(unsigned*) = nullptr;
  int (*device_)(unsigned index, Device*) = nullptr;
  int (*name_)(Device, char*, unsigned bytes) = nullptr;
  int (*pci_info_)(Device, PciInfo*) = nullptr;
  int (*memory_info_)(Device, Memory*) = nullptr;
  int (*compute_capability_)(Device, int* major, int* minor) = nullptr;
  // Null in drivers of before each was added.
  int (*link_state_)(Device, unsigned link, int* is_active) = nullptr;
  int (*link_version_)(Device, unsigned link, unsigned* version) = nullptr;
  int (*link_remote_pci_)(Device, unsigned link, PciInfo*) = nullptr;
  int (*link_remote_type_)(Device, unsigned link, int* type) = nullptr;
  int (*p2p_status_)(Device, Device, int capability, int* status) = nullptr;

  bool is_started_ = false;
  std::vector<Device> devices_;
};

Status ask_nvml(const std::string& file, std::vector<Gpu>* gpus) {
  Nvml nvml;
  RODA_RETURN_IF_ERROR(nvml.start(file));
  return nvml.read_gpus(gpus);
}

// --- CUDA's driver library, where NVML is missing (some containers, integrated boards) ------------------------------

void read_gpu(const cuda::Driver& driver, int device, int count, Gpu* gpu) {
  char text[96] = "";
  if (driver.DeviceGetPCIBusId(text, sizeof text, device) == cuda::kSuccess) gpu->pci.address = text;
  for (char& c : gpu->pci.address) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (driver.DeviceGetName(text, sizeof text, device) == cuda::kSuccess) gpu->model = text;
  std::size_t bytes = 0;
  if (driver.DeviceTotalMem(&bytes, device) == cuda::kSuccess) gpu->memory_gib = to_gib(bytes);
  int major = 0, minor = 0;
  if (driver.DeviceGetAttribute(&major, cuda::kCapabilityMajor, device) == cuda::kSuccess &&
      driver.DeviceGetAttribute(&minor, cuda::kCapabilityMinor, device) == cuda::kSuccess) {
    gpu->compute_capability = roda::format("{}.{}", major, minor);
  }
  for (int peer = 0; peer < count; ++peer) {
    int other = 0, can = 0;
    if (peer == device || driver.DeviceGet(&other, peer) != cuda::kSuccess) continue;
    if (driver.DeviceCanAccessPeer(&can, device, other) == cuda::kSuccess && can != 0) gpu->peers.push_back(peer);
  }
}

Status ask_cuda(const std::string& file, std::vector<Gpu>* gpus) {
  const cuda::Driver* driver = nullptr;
  RODA_RETURN_IF_ERROR(cuda::Driver::open(file.c_str(), &driver));
  int count = 0;
  RODA_RETURN_IF_ERROR(driver->check(driver->Init(0), "cuInit"));
  RODA_RETURN_IF_ERROR(driver->check(driver->DeviceGetCount(&count), "cuDeviceGetCount"));
  gpus->resize(driver->is_hip ? 0 : static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < gpus->size(); ++i) {
    cuda::Ordinal device = 0;
    RODA_RETURN_IF_ERROR(driver->check(driver->DeviceGet(&device, static_cast<int>(i)), "cuDeviceGet"));
    read_gpu(*driver, device, count, &(*gpus)[i]);
  }
  return {};
}

// The GPUs that the driver shows, in its order, each with the place that the kernel's list knows for its address.
void keep_places(const Machine& machine, std::vector<Gpu>* shown) {
  for (Gpu& gpu : *shown) {
    const auto known =
        std::ranges::find_if(machine.gpus, [&](const Gpu& g) { return g.pci.address == gpu.pci.address; });
    if (known != machine.gpus.end()) gpu.pci = known->pci;
  }
}

}  // namespace

void find_gpu_links(const std::string& nvml_file, const std::string& cuda_file, Machine* machine) {
  std::vector<Gpu> shown;
  const Status nvml = ask_nvml(nvml_file, &shown);
  if (!nvml.ok()) shown.clear();
  const Status cuda = nvml.ok() ? Status() : ask_cuda(cuda_file, &shown);
  if (nvml.ok()) {
    machine->absent.erase("gpus/links");
  } else {
    machine->absent["gpus/links"] = cuda.ok() ? nvml.message() : nvml.message() + "; " + cuda.message();
  }
  if (!cuda.ok()) return;
  if (machine->gpus.size() > shown.size()) {
    machine->absent["gpus"] =
        roda::format("{} more on the bus that the driver does not show", machine->gpus.size() - shown.size());
  }
  keep_places(*machine, &shown);
  machine->gpus = std::move(shown);
}

}  // namespace roda::topology
