#include "transports/nccl/library.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <vector>

#include "plugins/base/symbols.h"

namespace roda::nccl {
namespace {

// NVIDIA's, else AMD's.
constexpr const char* kFiles[] = {"libnccl.so.2", "librccl.so.1"};

using Handle = std::shared_ptr<void>;

[[noreturn]] void refuse(const std::string& reason) { throw sdk::Failure(RODA_ERR_UNAVAILABLE, reason); }

Handle open(const char* file, int flags) {
  void* handle = ::dlopen(file, RTLD_NOW | RTLD_LOCAL | flags);
  return handle == nullptr ? nullptr : Handle(handle, [](void* opened) { ::dlclose(opened); });
}

// The files in this process whose name is NCCL's, without doubles by way of links.
std::vector<std::string> loaded_files() {
  std::set<std::string> files;
  const auto look = [](dl_phdr_info* info, std::size_t, void* found) {
    const char* slash = std::strrchr(info->dlpi_name, '/');
    const char* name = slash != nullptr ? slash + 1 : info->dlpi_name;
    if (std::strncmp(name, "libnccl.so", 10) != 0 && std::strncmp(name, "librccl.so", 10) != 0) return 0;
    char* real = ::realpath(info->dlpi_name, nullptr);
    static_cast<std::set<std::string>*>(found)->insert(real != nullptr ? real : info->dlpi_name);
    std::free(real);
    return 0;
  };
  ::dl_iterate_phdr(look, &files);
  return {files.begin(), files.end()};
}

std::shared_ptr<const Library> load(Handle handle, const std::string& file) {
  auto opened = std::make_shared<Library>();
  Library& library = *opened;
  look_up(handle.get(), "ncclGetVersion", &library.GetVersion);
  if (library.GetVersion == nullptr) refuse(file + " is no NCCL: it has no ncclGetVersion");
  library.path = file_of(library.GetVersion, file.c_str());
  if (library.GetVersion(&library.version) != kSuccess) refuse(library.path + " does not tell its version");
  if (library.version < kOldest) {
    refuse(library.description() + " is too old: NCCL 2.8 or newer is needed (send and receive, all-to-all)");
  }
#define X(member, symbol, result, parameters) \
  if (!look_up(handle.get(), #symbol, &library.member)) refuse(library.description() + " has no " #symbol);
  RODA_NCCL_FUNCTIONS(X)
#undef X
#define X(member, symbol, result, parameters) look_up(handle.get(), #symbol, &library.member);
  RODA_NCCL_NEWER_FUNCTIONS(X)
#undef X
  library.handle = std::move(handle);
  return opened;
}

// Several files may be loaded: two of one version do no harm, two versions do.
std::shared_ptr<const Library> choose(const std::vector<std::string>& files) {
  std::shared_ptr<const Library> first;
  for (const std::string& file : files) {
    const Handle handle = open(file.c_str(), RTLD_NOLOAD);
    if (handle == nullptr) continue;
    const std::shared_ptr<const Library> library = load(handle, file);
    if (first == nullptr) first = library;
    if (first->version == library->version) continue;
    refuse("two versions of NCCL are loaded in this process: " + first->description() + " and " +
           library->description() + "; remove one, or name the one to use with RODA_NCCL_LIBRARY=" + first->path);
  }
  return first;
}

constexpr const char* kSmallSharedMemory =
    "shared memory is too small, as it is in containers by default: enlarge it (docker run --shm-size=1g), or set "
    "NCCL_SHM_DISABLE=1";

struct Cause {
  const char* part;  // of NCCL's text
  const char* advice;
};
constexpr Cause kCauses[] = {
    {"Duplicate GPU",
     "two ranks use the same GPU, which NCCL does not allow: give each rank of a host its own "
     "(torch.cuda.set_device(hvd.local_rank())) and start no more ranks on a host than it has GPUs"},
    {"/dev/shm", kSmallSharedMemory},
    {"No space left on device", kSmallSharedMemory},
    {"out of memory",
     "the GPU's memory is full: use a smaller batch, or NCCL_BUFFSIZE and NCCL_MAX_NCHANNELS for less"},
};

int code_of(Result result) {
  switch (result) {
    case kRemoteError:
      return RODA_ERR_PEER;
    case kUnhandledCudaError:
    case kSystemError:
      return RODA_ERR_SYSTEM;
    case kInvalidArgument:
    case kInvalidUsage:
      return RODA_ERR_INVALID;
    default:
      return RODA_ERR_UNKNOWN;
  }
}

}  // namespace

std::shared_ptr<const Library> Library::find(const char* named) {
  const bool is_named = named != nullptr && *named != '\0';
  if (!is_named) {
    if (std::shared_ptr<const Library> loaded = choose(loaded_files())) return loaded;
  }
  std::string first;
  for (const char* each : kFiles) {
    const char* file = is_named ? named : each;
    if (const Handle handle = open(file, 0); handle != nullptr) return load(handle, file);
    if (first.empty()) first = ::dlerror();
  }
  refuse("no NCCL: none is loaded (PyTorch brings one along) and " + first +
         (is_named ? " (from RODA_NCCL_LIBRARY)" : "; RODA_NCCL_LIBRARY names a file"));
}

void Library::stay_open() const { open(path.c_str(), RTLD_NOLOAD | RTLD_NODELETE); }

std::string version_text(int version) {
  const int scale = version < 10000 ? 1000 : 10000;
  return std::to_string(version / scale) + "." + std::to_string(version % scale / 100) + "." +
         std::to_string(version % 100);
}

std::string advice(const cuda::Driver& driver, Result result, const std::string& text) {
  if (text.find("driver version is insufficient") != std::string::npos) {
    return "the GPU driver serves CUDA " + cuda::version_text(driver.version) +
           " at most, and this NCCL was built for a newer one: update the driver, or install an NCCL built for it";
  }
  for (const Cause& cause : kCauses) {
    if (text.find(cause.part) != std::string::npos) return cause.advice;
  }
  if (result == kRemoteError) return "another rank ended or lost its connection: look at the others' messages first";
  if (result == kSystemError) return "NCCL_DEBUG=INFO makes NCCL print the call that failed";
  if (result == kUnhandledCudaError) return "NCCL_DEBUG=WARN makes NCCL print CUDA's error";
  return "";
}

sdk::Failure explain(const Library& library, const cuda::Driver& driver, Comm comm, Result result,
                     const std::string& what) {
  std::string text = "nccl: " + what + ": " + library.GetErrorString(result);
  const char* last = library.GetLastError != nullptr ? library.GetLastError(comm) : nullptr;
  if (last != nullptr && *last != '\0') text += std::string(": ") + last;
  const std::string help = advice(driver, result, text);
  if (!help.empty()) text += "; " + help;
  return {code_of(result), text};
}

}  // namespace roda::nccl
