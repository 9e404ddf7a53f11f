#include "core/topology/hwloc_library.h"

#include <dlfcn.h>

#include "plugins/base/format.h"

namespace roda::topology {

Status Hwloc::open(const std::string& file, Hwloc* hwloc) {
  void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return Status::unavailable(
        roda::format("hwloc can't be opened (Debian: libhwloc15): {}", why != nullptr ? why : file));
  }
  Hwloc found;
  const char* missing = nullptr;
#define RODA_HWLOC_LOOK_UP(name)                                                        \
  found.name = reinterpret_cast<decltype(found.name)>(::dlsym(handle, "hwloc_" #name)); \
  if (found.name == nullptr) missing = "hwloc_" #name;
  RODA_HWLOC_FUNCTIONS(RODA_HWLOC_LOOK_UP)
#undef RODA_HWLOC_LOOK_UP
  if (missing != nullptr) return Status::unavailable(roda::format("{} has no {}", file, missing));
  const unsigned version = found.get_api_version();
  if (version >> 16 != HWLOC_API_VERSION >> 16) {
    return Status::unavailable(
        roda::format("{} has interface {:#x}, of another major version than {:#x}", file, version, HWLOC_API_VERSION));
  }
  *hwloc = found;
  return {};
}

}  // namespace roda::topology
