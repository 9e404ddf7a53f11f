// What the kernel says of the machine in /sys and /proc, below a root that tests replace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/topology/machine.h"

namespace roda::topology {

// Any thread. Paths are absolute and lie below the root.
class KernelFiles {
 public:
  explicit KernelFiles(std::string root = "") : root_(std::move(root)) {}

  // The first line without the space around it; "" for what can't be read.
  std::string line(const std::string& path) const;
  std::int64_t number(const std::string& path, std::int64_t otherwise) const;
  bool exists(const std::string& path) const;
  // Entries of a folder, sorted; empty when there is none.
  std::vector<std::string> names(const std::string& folder) const;
  // Place of the device that a path (a link into /sys/devices) leads to.
  PciPlace pci_place(const std::string& path) const;

 private:
  std::string root_;
};

}  // namespace roda::topology
