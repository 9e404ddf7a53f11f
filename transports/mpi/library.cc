#include "transports/mpi/library.h"

#include <dlfcn.h>
#include <roda/sdk/error.hpp>

#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <vector>

#include "plugins/base/symbols.h"
#include "transports/mpi/mpi.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {
namespace {

#ifdef RODA_MPI_LIBRARY  // roda-build-plugin: the one that is there, whatever it is called
constexpr const char* kNames[] = {RODA_MPI_LIBRARY};
constexpr const char* kWhat = RODA_MPI_LIBRARY;
#elif defined(OPEN_MPI)
constexpr const char* kNames[] = {"libmpi.so.40"};
constexpr const char* kWhat = "Open MPI's libmpi.so.40";
#elif defined(MPICH_VERSION)
constexpr const char* kNames[] = {"libmpich.so.12", "libmpi.so.12"};
constexpr const char* kWhat = "MPICH's libmpich.so.12 or libmpi.so.12";
#else
constexpr const char* kNames[] = {"libmpi_abi.so.1", "libmpi_abi.so.0"};
constexpr const char* kWhat = "MPI 5's libmpi_abi.so.1";
#endif

[[noreturn]] void refuse(const std::string& reason) { throw sdk::Failure(RODA_ERR_UNAVAILABLE, reason); }

template <typename Function>
void load(void* handle, const char* name, const std::string& path, Function* function) {
  if (!look_up(handle, name, function)) refuse(path + " has no " + name + ": MPI 3.0 or newer is needed");
}

const char* name_of_loaded() {
  for (const char* name : kNames) {
    void* handle = ::dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    ::dlclose(handle);
    return name;
  }
  return nullptr;
}

// What to open: the library that the process has; else that of the launcher which comes first in PATH, which may lie in
// a folder that the loader does not know; else what the loader finds.
std::vector<std::string> candidates() {
  if (const char* loaded = name_of_loaded(); loaded != nullptr) return {loaded};
  std::vector<std::string> found;
#ifndef RODA_MPI_LIBRARY
  if (const std::filesystem::path folder = prefix_of_launcher(std::getenv("PATH")); !folder.empty()) {
    for (const char* name : kNames) {
      for (const char* libraries : {"lib", "lib64"}) {
        std::error_code error;
        if (std::filesystem::exists(folder / libraries / name, error)) found.push_back(folder / libraries / name);
      }
    }
  }
#endif
  found.insert(found.end(), std::begin(kNames), std::end(kNames));
  return found;
}

}  // namespace

bool Library::is_loaded() { return name_of_loaded() != nullptr; }

void Library::open() {
  void* handle = nullptr;
  std::string reasons;
  for (const std::string& candidate : candidates()) {
    // Never closed: MPI's threads and exit handlers would outlive its code.
    handle = ::dlopen(candidate.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle != nullptr) {
      path = candidate;
      break;
    }
    reasons += std::string(reasons.empty() ? "" : "; ") + ::dlerror();
  }
  if (handle == nullptr) refuse(std::string("no MPI: ") + kWhat + " could not be opened: " + reasons);
#define X(name) load(handle, "MPI_" #name, path, &name);
  RODA_MPI_FUNCTIONS(X)
#undef X
  load_handles(handle);
  int major = 0, minor = 0;
  Get_version(&major, &minor);
  if (major < 3) {
    refuse(version_text() + " implements MPI " + std::to_string(major) + "." + std::to_string(minor) +
           "; MPI 3.0 or newer is needed");
  }
}

void Library::load_handles(void* handle) {
#ifdef OPEN_MPI
#define X(type, name, standard, symbol) name = reinterpret_cast<type>(::dlsym(handle, symbol));
  RODA_MPI_HANDLES(X)
#undef X
#define X(type, name, standard, symbol) \
  if (name == nullptr) refuse(path + " has no " symbol ": it is not the Open MPI that this plugin knows");
  RODA_MPI_HANDLES(X)
#undef X
  load(handle, "MPI_Comm_f2c", path, &comm_from_int_);
#else
#ifdef MPICH_VERSION
  static_cast<void>(handle);
  comm_from_int_ = [](int number) { return MPI_Comm_f2c(number); };  // a cast
#else
  load(handle, "MPI_Comm_fromint", path, &comm_from_int_);
#endif
#define X(type, name, standard, symbol) name = standard;
  RODA_MPI_HANDLES(X)
#undef X
#endif
}

void Library::make_global() const {
#ifdef OPEN_MPI
  ::dlopen(path.c_str(), RTLD_LAZY | RTLD_GLOBAL | RTLD_NOLOAD);
#endif
}

sdk::Failure failure_of(const Library& library, int code, const char* what, int world_rank) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  library.Error_string(code, text, &length);
  return {world_rank >= 0 ? RODA_ERR_PEER : RODA_ERR_UNKNOWN, std::string("mpi: ") + what + ": " + text, world_rank};
}

}  // namespace roda::mpi::RODA_MPI_FLAVOUR
