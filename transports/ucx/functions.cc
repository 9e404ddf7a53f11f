#include "transports/ucx/functions.h"

#include <dlfcn.h>
#include <roda/sdk/error.hpp>

#include <filesystem>
#include <string>

#include "plugins/base/mutex.h"
#include "plugins/base/symbols.h"

namespace roda::ucx {

Ucp ucp;
Ucs ucs;

namespace {

constexpr const char* kFile = "libucp.so.0";

[[noreturn]] void refuse(const std::string& reason) { throw sdk::Failure(RODA_ERR_UNAVAILABLE, reason); }

std::string version_text(unsigned major, unsigned minor) { return std::to_string(major) + "." + std::to_string(minor); }

std::string needed() {
  const std::string major = std::to_string(UCP_API_MAJOR);
  return "this plugin needs " + version_text(UCP_API_MAJOR, UCP_API_MINOR) + " or a later " + major + ".x";
}

template <typename Function>
void demand(void* library, const char* name, Function* function) {
  if (!look_up(library, name, function)) refuse(std::string(kFile) + " has no " + name + ": " + needed());
}

// PyPI's package libucx, which lies beside ours, where the loader does not look. In a wheel this plugin is
// horovod/lib/roda/plugins/roda_ucx.so.
std::string file_of_package() {
  const std::filesystem::path folder = std::filesystem::path(file_of(&open_functions, "")).parent_path();
  return (folder / "../../../../libucx/lib" / kFile).lexically_normal();
}

void* open_library() {
  // Never closed: UCX's threads and exit handlers would outlive its code.
  constexpr int kMode = RTLD_NOW | RTLD_LOCAL;
  if (void* library = ::dlopen(kFile, kMode); library != nullptr) return library;
  std::string reasons = ::dlerror();
  std::error_code error;
  if (const std::string file = file_of_package(); std::filesystem::exists(file, error)) {
    if (void* library = ::dlopen(file.c_str(), kMode); library != nullptr) return library;
    reasons += std::string("; ") + ::dlerror();
  }
  refuse("no UCX: " + reasons +
         "; install it (Debian: libucx0; pip: libucx-cu12) or add its folder to LD_LIBRARY_PATH");
}

void check_version(void* library) {
  decltype(&::ucp_get_version) get_version = nullptr;
  demand(library, "ucp_get_version", &get_version);
  unsigned major = 0, minor = 0, release = 0;
  get_version(&major, &minor, &release);
  if (major == UCP_API_MAJOR && minor >= UCP_API_MINOR) return;
  refuse("UCX " + version_text(major, minor) + "." + std::to_string(release) + " (" + file_of(get_version, kFile) +
         ") is installed, but " + needed());
}

}  // namespace

void open_functions() {
  static Mutex guard;
  const MutexLock lock(guard);
  if (ucp.get_version != nullptr) return;
  void* library = open_library();
  check_version(library);
  Ucp found_ucp;
  Ucs found_ucs;
#define X(name) demand(library, "ucp_" #name, &found_ucp.name);
  RODA_UCP_FUNCTIONS(X)
#undef X
#define X(name) demand(library, "ucs_" #name, &found_ucs.name);
  RODA_UCS_FUNCTIONS(X)
#undef X
  ucs = found_ucs;
  ucp = found_ucp;
}

}  // namespace roda::ucx
