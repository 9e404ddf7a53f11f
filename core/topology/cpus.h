// Packages, NUMA nodes, cores and caches.
#pragma once

#include <string>

#include "algorithms/topology/machine.h"
#include "core/topology/kernel_files.h"
#include "plugins/base/status.h"

namespace roda::topology {

// By hwloc, opened at run time under a name for the dynamic linker. It honours its own variables (HWLOC_XMLFILE,
// HWLOC_SYNTHETIC): *is_this_machine is then false, and what its description holds of devices is taken too. Not with a
// concurrent setenv.
Status find_cpus_with_hwloc(const std::string& library, Machine* machine, bool* is_this_machine);

// By the kernel's files: quick, and the same on Linux but for the models of packages and hwloc's corrections of
// firmware that errs.
Status find_cpus_in_files(const KernelFiles& files, Machine* machine);

}  // namespace roda::topology
