#include "plugins/base/cuda/driver.h"

#include <dlfcn.h>

#include <map>

#include "plugins/base/cuda/hip.h"
#include "plugins/base/mutex.h"
#include "plugins/base/symbols.h"

namespace roda::cuda {
namespace {

// NVIDIA's, else AMD's.
constexpr const char* kFiles[] = {"libcuda.so.1", "libamdhip64.so.7", "libamdhip64.so"};
// CUDA 11.0; what NCCL and frameworks of today need at least.
constexpr int kOldestVersion = 11000;

struct Hint {
  Result result;
  const char* text;
};
constexpr Hint kHints[] = {
    {kNotInitialized,
     "; a process that was forked from one that had used CUDA can't use it: start workers by 'spawn' or 'forkserver'"},
    {kNoDevice, "; no GPU is visible to this process: see nvidia-smi and CUDA_VISIBLE_DEVICES"},
    {kInvalidDevice, "; CUDA_VISIBLE_DEVICES may hide it"},
    {803, "; the driver's kernel module and its library differ in version: reboot, or mount the host's library"},
};

// Never closed: the driver's threads and exit handlers would outlive its code.
Status open_file(const std::string& file, void** handle, std::string* path) {
  std::string first;
  for (const char* candidate : kFiles) {
    *path = file.empty() ? candidate : file;
    *handle = ::dlopen(path->c_str(), RTLD_NOW | RTLD_LOCAL);
    if (*handle != nullptr) return {};
    if (first.empty()) first = ::dlerror();
  }
  return Status::unavailable("no CUDA driver: " + first);
}

const char* fill_from_cuda(void* library, Driver* driver) {
#define X(member, symbol, parameters) \
  if (!look_up(library, #symbol, &driver->member)) return #symbol;
  RODA_CUDA_FUNCTIONS(X)
  RODA_CUDA_PLACE_FUNCTIONS(X)
#undef X
#define X(member, symbol, parameters) look_up(library, #symbol, &driver->member);
  RODA_CUDA_POOL_FUNCTIONS(X)
#undef X
  return nullptr;
}

Status fill(const std::string& file, Driver* driver) {
  void* handle = nullptr;
  RODA_RETURN_IF_ERROR(open_file(file, &handle, &driver->path));
  Result (*init)(unsigned) = nullptr;
  driver->is_hip = look_up(handle, "hipInit", &init);
  const char* const lacks = driver->is_hip ? fill_from_hip(handle, driver) : fill_from_cuda(handle, driver);
  const int oldest = driver->is_hip ? kOldestHip : kOldestVersion;
  if (lacks != nullptr) {
    return Status::unavailable(driver->path + " has no " + lacks + ": the driver is older than " + driver->vendor() +
                               " " + version_text(oldest));
  }
  RODA_RETURN_IF_ERROR(driver->check(driver->DriverGetVersion(&driver->version), "cuDriverGetVersion"));
  if (driver->version >= oldest) return {};
  if (driver->version == 0) return Status::unavailable(driver->path + " finds no CUDA driver in the kernel");
  return Status::unavailable("the driver serves " + std::string(driver->vendor()) + " " +
                             version_text(driver->version) + " at most, " + version_text(oldest) +
                             " is needed: install a newer one");
}

// Errors that the context never recovers from. They are reported by whatever call comes next, whoever caused them: a
// kernel of the user's program, as a rule.
bool is_sticky(Result result) {
  return result == 214 || (result >= kIllegalAddress && result <= 721 && result != 704 && result != 705 &&
                           result != 708 && result != 712 && result != 713 && result != 720);
}

}  // namespace

Status Driver::open(const char* file, const Driver** driver) {
  struct Opened {
    Driver table;
    Status status;
  };
  static Mutex guard;
  // Its nodes stay where they are, and it is never destroyed: helper threads may outlive main.
  static auto& known RODA_GUARDED_BY(guard) = *new std::map<std::string, Opened>;
  const std::string name = file != nullptr ? file : "";
  const MutexLock lock(guard);
  const auto [entry, is_new] = known.try_emplace(name);
  Opened& opened = entry->second;
  if (is_new) opened.status = fill(name, &opened.table);
  *driver = opened.status.ok() ? &opened.table : nullptr;
  return opened.status;
}

std::string Driver::explain(Result result, const std::string& what) const {
  const char *name = nullptr, *words = nullptr;
  GetErrorName(result, &name);
  GetErrorString(result, &words);
  std::string text =
      std::string(vendor()) + ": " + what + ": " + (name != nullptr ? name : "error " + std::to_string(result));
  if (words != nullptr) text += std::string(" (") + words + ")";
  for (const Hint& hint : kHints) {
    if (hint.result == result) text += hint.text;
  }
  if (is_sticky(result)) {
    text +=
        "; CUDA reports the failure of any earlier kernel by the next call, so that a kernel of the program itself may "
        "have failed: CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer finds it";
  }
  return text;
}

Status Driver::check(Result result, const std::string& what) const {
  switch (result) {
    case kSuccess:
      return {};
    case kOutOfMemory:
      return Status::no_memory(explain(result, what));
    case kInvalidValue:
    case kInvalidDevice:
      return Status::invalid(explain(result, what));
    case kNotInitialized:
    case kNoDevice:
      return Status::unavailable(explain(result, what));
    default:
      return Status::system(explain(result, what));
  }
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace roda::cuda
