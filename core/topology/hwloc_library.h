// hwloc, opened at run time behind a table of the functions that are used.
//
// Opened rather than linked in: a static hwloc would bring libudev along as a library to load, a second copy beside the
// one that an MPI in this process uses, and could not be corrected for new machines without a new build of ours.
#pragma once

#include <hwloc.h>

#include <string>

#include "plugins/base/status.h"

namespace roda::topology {

// clang-format off
#define RODA_HWLOC_FUNCTIONS(X)                                                                                   \
  X(get_api_version) X(topology_init) X(topology_destroy) X(topology_load) X(topology_set_flags)                  \
  X(topology_set_io_types_filter) X(topology_set_icache_types_filter) X(topology_is_thissystem) X(get_type_depth) \
  X(get_nbobjs_by_depth) X(get_obj_by_depth) X(bitmap_next) X(distances_get) X(distances_release)
// clang-format on

// Immutable once opened; any thread. Never closed: another library of this process may use it.
struct Hwloc {
#define RODA_HWLOC_MEMBER(name) decltype(&::hwloc_##name) name = nullptr;
  RODA_HWLOC_FUNCTIONS(RODA_HWLOC_MEMBER)
#undef RODA_HWLOC_MEMBER

  // Refuses a library of another major version than the headers'.
  static Status open(const std::string& file, Hwloc* hwloc);
};

}  // namespace roda::topology
