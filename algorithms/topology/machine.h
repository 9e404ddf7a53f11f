// What one machine is made of, as a plain value: it can be discovered, written to a file and read from one.
//
// It is a shape: it holds nothing by which two machines of one model would differ (no serial numbers, addresses or host
// names), so that a job exchanges each shape once.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace roda::topology {

// A set of hardware threads, by the operating system's numbers.
using CpuSet = std::vector<int>;  // ascending, no number twice

constexpr int kMostCpus = 65536;

// The kernel's list form: "0-3,8"; "" for the empty set.
std::string print_cpus(const CpuSet& cpus);
// False for anything but that form, numbers beyond kMostCpus, or a list that does not ascend.
bool parse_cpus(std::string_view text, CpuSet* cpus);

bool contains(const CpuSet& all, const CpuSet& some);
CpuSet intersect(const CpuSet& a, const CpuSet& b);

// Where a device is plugged in.
struct PciPlace {
  std::string address;               // "0000:17:00.0"; empty: on no PCI bus
  std::vector<std::string> bridges;  // from the host bridge ("pci0000:15") down to the one that the device is behind
  int numa_node = -1;                // -1: unknown

  friend bool operator==(const PciPlace&, const PciPlace&) = default;
};

// How far two devices are from one another, nearest first.
enum class PciDistance : std::uint8_t { kSameDevice, kSameSwitch, kSwitches, kHostBridge, kNumaNode, kSystem };

// kSameSwitch: behind one bridge; kSwitches: one root port, several bridges; kHostBridge: one host bridge. A device
// whose place is unknown is at kSystem.
PciDistance distance(const PciPlace& a, const PciPlace& b);
const char* distance_name(PciDistance distance);

struct Package {
  CpuSet cpus;
  std::string model;

  friend bool operator==(const Package&, const Package&) = default;
};

struct NumaNode {
  int number = 0;
  CpuSet cpus;                  // empty: memory only
  std::int64_t memory_gib = 0;  // rounded: machines of one model differ in what the kernel keeps. 0: unknown
  std::vector<int> distances;   // to each node of the list, as the firmware tells; empty: unknown

  friend bool operator==(const NumaNode&, const NumaNode&) = default;
};

// The data caches of one level and size, and who shares each.
struct CacheLevel {
  int level = 0;
  std::int64_t kib = 0;
  std::vector<CpuSet> shared_by;

  friend bool operator==(const CacheLevel&, const CacheLevel&) = default;
};

struct Nic {
  std::string name;    // of the interface
  int speed_mbit = 0;  // 0: unknown
  bool is_up = false;
  bool is_physical = true;  // false: there is no device behind it, as in a container
  PciPlace pci;

  friend bool operator==(const Nic&, const Nic&) = default;
};

struct RdmaPort {
  int number = 1;
  std::string link_layer;  // "InfiniBand", "Ethernet"
  int rate_mbit = 0;       // 0: unknown
  bool is_active = false;

  friend bool operator==(const RdmaPort&, const RdmaPort&) = default;
};

struct RdmaDevice {
  std::string name;
  std::vector<RdmaPort> ports;
  PciPlace pci;

  friend bool operator==(const RdmaDevice&, const RdmaDevice&) = default;
};

struct Gpu {
  std::string model;
  PciPlace pci;
  std::int64_t memory_gib = 0;     // rounded; 0: unknown
  std::string compute_capability;  // "9.0"; empty: unknown
  int nvlink_version = 0;          // 0: no NVLink, or not asked
  int switch_links = 0;            // NVLinks to a switch
  std::map<int, int> peer_links;   // by index of another GPU: NVLinks straight to it
  std::vector<int> peers;          // indices of the GPUs whose memory it reaches, ascending

  friend bool operator==(const Gpu&, const Gpu&) = default;
};

struct Machine {
  std::string model;                 // "" unless the firmware or a file names it
  std::vector<std::string> sources;  // where a file's facts are from; no part of a comparison or the hash
  CpuSet cpus;                       // every hardware thread that is online
  std::vector<CpuSet> cores;         // the threads of each
  std::vector<Package> packages;
  std::vector<NumaNode> numa_nodes;
  std::vector<CacheLevel> caches;  // level 1 first
  std::vector<Nic> nics;           // by name
  std::vector<RdmaDevice> rdma_devices;
  std::vector<Gpu> gpus;                      // in the order of the driver, which is that of PCI addresses
  std::map<std::string, std::string> absent;  // what could not be known, by the name of the field: why

  friend bool operator==(const Machine&, const Machine&) = default;
};

// The caches nearest to memory that several cores share; null where none is known.
const CacheLevel* shared_cache(const Machine& machine);

// NVLink's bandwidth per link and direction, in GB/s; 0 for a version that is not known.
int nvlink_gbytes(int version);

// The index of the RDMA device nearest to a GPU among those with an active port, the lowest of equal ones that `taken`
// counts least often; -1: none. `taken` is empty or has a count for each device.
int nearest_rdma_device(const Machine& machine, int gpu, const std::vector<int>& taken = {});

}  // namespace roda::topology
