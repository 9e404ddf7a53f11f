#pragma once

#include <string>

#include "algorithms/topology/machine.h"
#include "plugins/base/status.h"

namespace roda::topology {

// CPUs by hwloc, opened at run time under a name for the dynamic linker. It honours its own variables (HWLOC_XMLFILE,
// HWLOC_SYNTHETIC): *is_this_machine is then false, and what its description holds of devices is taken too. Not with a
// concurrent setenv.
Status ask_hwloc(const std::string& library, Machine* machine, bool* is_this_machine);

}  // namespace roda::topology
