// The few functions of NVIDIA's management library (NVML) that are used, opened at run time. Declared here after NVML's
// published API reference: its header comes with a toolkit that a machine that builds need not have.
#pragma once

#include <string>

#include "plugins/base/status.h"

namespace roda::topology::nvml {

struct DeviceOpaque;
using Device = DeviceOpaque*;
using Return = int;  // 0: success

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  char bus_id[32];
};

struct Memory {
  unsigned long long total;  // bytes
  unsigned long long free;
  unsigned long long used;
};

constexpr unsigned kMostLinks = 18;
constexpr unsigned kNameBytes = 96;
enum RemoteType : int { kRemoteGpu = 0, kRemoteNpu = 1, kRemoteSwitch = 2, kRemoteUnknown = 255 };
enum P2pCapability : int { kP2pRead = 0 };
enum P2pStatus : int { kP2pOk = 0 };

// Immutable once opened; any thread. Never closed.
struct Library {
  Return (*init)() = nullptr;
  Return (*shutdown)() = nullptr;
  const char* (*error_string)(Return) = nullptr;
  Return (*device_count)(unsigned*) = nullptr;
  Return (*device)(unsigned index, Device*) = nullptr;
  Return (*name)(Device, char*, unsigned bytes) = nullptr;
  Return (*pci_info)(Device, PciInfo*) = nullptr;
  Return (*memory_info)(Device, Memory*) = nullptr;
  Return (*compute_capability)(Device, int* major, int* minor) = nullptr;
  // Null in drivers of before each was added.
  Return (*link_state)(Device, unsigned link, int* is_active) = nullptr;
  Return (*link_version)(Device, unsigned link, unsigned* version) = nullptr;
  Return (*link_remote_pci)(Device, unsigned link, PciInfo*) = nullptr;
  Return (*link_remote_type)(Device, unsigned link, int* type) = nullptr;
  Return (*p2p_status)(Device, Device, int capability, int* status) = nullptr;

  // `file` is a name for the dynamic linker.
  static Status open(const std::string& file, Library* library);
};

}  // namespace roda::topology::nvml
