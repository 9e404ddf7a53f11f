#include "transports/mpi/library.h"

#include <dlfcn.h>
#include <roda/sdk/error.hpp>

#include <cstring>

#include "plugins/base/symbols.h"

namespace roda::mpi::RODA_MPI_FLAVOUR {
namespace {

#ifdef RODA_MPI_LIBRARY  // roda-build-plugin: the one that is there, whatever it is called
constexpr const char* kNames[] = {RODA_MPI_LIBRARY};
constexpr const char* kWhat = RODA_MPI_LIBRARY;
#elif defined(OPEN_MPI)
constexpr const char* kNames[] = {"libmpi.so.40"};
constexpr const char* kWhat = "Open MPI's libmpi.so.40";
#else
constexpr const char* kNames[] = {"libmpich.so.12", "libmpi.so.12"};
constexpr const char* kWhat = "MPICH's libmpich.so.12 or libmpi.so.12";
#endif

[[noreturn]] void refuse(const std::string& reason) { throw sdk::Failure(RODA_ERR_UNAVAILABLE, reason); }

template <typename Function>
void load(void* handle, const char* name, const std::string& path, Function* function) {
  if (!look_up(handle, name, function)) refuse(path + " has no " + name + ": MPI 3.0 or newer is needed");
}

}  // namespace

bool Library::is_loaded() {
  for (const char* name : kNames) {
    void* handle = ::dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    ::dlclose(handle);
    return true;
  }
  return false;
}

void Library::open() {
  void* handle = nullptr;
  std::string reasons;
  for (const char* name : kNames) {
    // Never closed: MPI's threads and exit handlers would outlive its code.
    handle = ::dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (handle != nullptr) {
      path = name;
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
  load(handle, "MPI_Comm_f2c", path, &comm_f2c_);
#else
  static_cast<void>(handle);
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

std::string Library::version_text() const {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  Get_library_version(text, &length);
  std::string line(text);
  return line.substr(0, line.find_first_of(",\n"));
}

MPI_Comm Library::comm_from_fortran(int handle) const {
#ifdef OPEN_MPI
  return comm_f2c_(handle);
#else
  return MPI_Comm_f2c(handle);
#endif
}

void reject(const Library& library, int code, const char* what, int world_rank) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  library.Error_string(code, text, &length);
  throw sdk::Failure(world_rank >= 0 ? RODA_ERR_PEER : RODA_ERR_UNKNOWN, std::string("mpi: ") + what + ": " + text,
                     world_rank);
}

}  // namespace roda::mpi::RODA_MPI_FLAVOUR
