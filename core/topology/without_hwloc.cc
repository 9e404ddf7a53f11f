#include "core/topology/kernel_files.h"

namespace roda::topology {

Status ask_hwloc(const std::string&, Machine*, bool*) {
  return Status::unavailable("built without the headers of hwloc 2 (Debian: libhwloc-dev)");
}

}  // namespace roda::topology
