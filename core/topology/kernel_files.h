// What the kernel says of the machine in /sys and /proc, below a root that tests replace: quick, and no device is
// opened.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/topology/machine.h"
#include "plugins/base/status.h"

namespace roda::topology {

// Any thread. Paths are absolute and lie below the root.
class KernelFiles {
 public:
  explicit KernelFiles(std::string root = "") : root_(std::move(root)) {}

  // The first line without the space around it; "" for what can't be read.
  std::string line(const std::string& path) const;
  std::vector<std::string> lines(const std::string& path) const;  // none of what can't be read
  std::int64_t number(const std::string& path, std::int64_t otherwise) const;
  bool exists(const std::string& path) const;
  // Entries of a folder, sorted; empty when there is none.
  std::vector<std::string> names(const std::string& folder) const;
  // Place of the device that a path (a link into /sys/devices) leads to.
  PciPlace pci_place(const std::string& path) const;

 private:
  std::string root_;
};

// Packages, NUMA nodes, cores and caches.
Status find_cpus(const KernelFiles& files, Machine* machine);
// The models of the packages that find_cpus() found: /proc/cpuinfo, which grows with the CPUs.
void find_cpu_models(const KernelFiles& files, Machine* machine);

constexpr std::size_t kMostDevices = 64;  // of each kind; a note in `absent` counts the rest

// Interfaces with a device behind them; where there is none (in a container), those that are up. Loopback never.
void find_nics(const KernelFiles& files, Machine* machine);
void find_rdma_devices(const KernelFiles& files, Machine* machine);
// GPUs for computing (NVIDIA, AMD) on the PCI bus: their places, and their model where the driver tells.
void find_gpus(const KernelFiles& files, Machine* machine);

// Completes machine->gpus by NVML, or by CUDA's driver library where there is no NVML (no links then): names for the
// dynamic linker. GPUs that the driver does not show to this process are dropped, and counted in `absent`. When neither
// answers, the GPUs stay as they were and `absent` says why. Can take long: see DiscoverOptions. CUDA, once asked, is
// unusable in forked children.
void find_gpu_links(const std::string& nvml_file, const std::string& cuda_file, Machine* machine);

}  // namespace roda::topology
