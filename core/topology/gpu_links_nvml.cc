#include <algorithm>

#include "core/topology/gpu_links.h"
#include "core/topology/nvml_library.h"
#include "plugins/base/format.h"

namespace roda::topology {

namespace {

std::string address_of(const nvml::PciInfo& pci) {
  return roda::format("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device);
}

// NVML between init and shutdown, and its devices.
class Session {
 public:
  explicit Session(const nvml::Library& library) : library_(library) {}
  ~Session() {
    if (is_open_) library_.shutdown();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Status start() {
    RODA_RETURN_IF_ERROR(checked("nvmlInit_v2", library_.init()));
    is_open_ = true;
    unsigned count = 0;
    RODA_RETURN_IF_ERROR(checked("nvmlDeviceGetCount_v2", library_.device_count(&count)));
    devices_.resize(count);
    for (unsigned i = 0; i < count; ++i) {
      RODA_RETURN_IF_ERROR(checked("nvmlDeviceGetHandleByIndex_v2", library_.device(i, &devices_[i])));
    }
    return {};
  }

  Status read_gpus(std::vector<Gpu>* gpus) const {
    for (const nvml::Device device : devices_) {
      nvml::PciInfo pci{};
      RODA_RETURN_IF_ERROR(checked("nvmlDeviceGetPciInfo_v3", library_.pci_info(device, &pci)));
      Gpu gpu;
      gpu.pci.address = address_of(pci);
      char name[nvml::kNameBytes] = "";
      if (library_.name(device, name, sizeof name) == 0) gpu.model = name;
      nvml::Memory memory{};
      if (library_.memory_info(device, &memory) == 0) {
        gpu.memory_gib = static_cast<std::int64_t>((memory.total + (1ull << 29)) >> 30);
      }
      int major = 0, minor = 0;
      if (library_.compute_capability(device, &major, &minor) == 0) {
        gpu.compute_capability = roda::format("{}.{}", major, minor);
      }
      gpus->push_back(std::move(gpu));
    }
    return {};
  }

  // The links of every GPU; a link is asked until one does not exist.
  void read_links(std::vector<Gpu>* gpus) const {
    if (library_.link_state == nullptr || library_.link_remote_pci == nullptr) return;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      for (unsigned link = 0; link < nvml::kMostLinks; ++link) {
        int is_active = 0;
        if (library_.link_state(devices_[i], link, &is_active) != 0) break;
        if (is_active != 0) add_link(i, link, gpus);
      }
    }
  }

  void read_peers(std::vector<Gpu>* gpus) const {
    if (library_.p2p_status == nullptr) return;
    for (std::size_t a = 0; a < devices_.size(); ++a) {
      for (std::size_t b = 0; b < devices_.size(); ++b) {
        int status = -1;
        if (a != b && library_.p2p_status(devices_[a], devices_[b], nvml::kP2pRead, &status) == 0 &&
            status == nvml::kP2pOk) {
          (*gpus)[a].peers.push_back(static_cast<int>(b));
        }
      }
    }
  }

 private:
  Status checked(const char* call, nvml::Return result) const {
    if (result == 0) return {};
    const char* why = library_.error_string(result);
    return Status::unavailable(roda::format("{}: {}", call, why != nullptr ? why : "unknown error"));
  }

  void add_link(std::size_t index, unsigned link, std::vector<Gpu>* gpus) const {
    Gpu& gpu = (*gpus)[index];
    unsigned version = 0;
    if (library_.link_version != nullptr && library_.link_version(devices_[index], link, &version) == 0) {
      gpu.nvlink_version = static_cast<int>(version);
    }
    nvml::PciInfo remote{};
    if (library_.link_remote_pci(devices_[index], link, &remote) != 0) return;
    const auto peer = std::find_if(gpus->begin(), gpus->end(),
                                   [&](const Gpu& other) { return other.pci.address == address_of(remote); });
    if (peer != gpus->end()) {
      ++gpu.peer_links[static_cast<int>(peer - gpus->begin())];
      return;
    }
    // A virtual machine may not see the switches: the other end is then unknown, but it is no GPU.
    int type = nvml::kRemoteUnknown;
    if (library_.link_remote_type != nullptr) library_.link_remote_type(devices_[index], link, &type);
    if (type == nvml::kRemoteSwitch || type == nvml::kRemoteUnknown) ++gpu.switch_links;
  }

  const nvml::Library& library_;
  bool is_open_ = false;
  std::vector<nvml::Device> devices_;
};

}  // namespace

Status ask_nvml(const std::string& file, Machine* machine) {
  nvml::Library library;
  RODA_RETURN_IF_ERROR(nvml::Library::open(file, &library));
  Session session(library);
  RODA_RETURN_IF_ERROR(session.start());
  std::vector<Gpu> gpus;
  RODA_RETURN_IF_ERROR(session.read_gpus(&gpus));
  session.read_links(&gpus);
  session.read_peers(&gpus);
  keep_places(*machine, &gpus);
  machine->gpus = std::move(gpus);
  return {};
}

}  // namespace roda::topology
