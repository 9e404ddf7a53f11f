#include "core/topology/cpus.h"

namespace roda::topology {

Status find_cpus_with_hwloc(const std::string&, Machine*, bool*) {
  return Status::unavailable("built without hwloc's headers (Debian: libhwloc-dev)");
}

}  // namespace roda::topology
