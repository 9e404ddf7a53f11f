#include "core/topology/cpus.h"

namespace roda::topology {

Status find_cpus_with_hwloc(const std::string&, Machine*, bool*) {
  return Status::unavailable("built without the headers of hwloc 2 (Debian: libhwloc-dev)");
}

}  // namespace roda::topology
