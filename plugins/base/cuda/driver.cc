#include "plugins/base/cuda/driver.h"

#include <dlfcn.h>

#include <map>

#include "plugins/base/mutex.h"
#include "plugins/base/symbols.h"

namespace roda::cuda {
namespace {

constexpr const char* kDriverFile = "libcuda.so.1";
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

Status fill(const char* file, Driver* driver) {
  // Never closed: the driver's threads and exit handlers would outlive its code.
  void* handle = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return Status::unavailable(std::string("no CUDA driver: ") + ::dlerror());
  driver->path = file;
#define X(member, symbol, parameters)                                                                          \
  if (!look_up(handle, #symbol, &driver->member)) {                                                            \
    return Status::unavailable(std::string(file) + " has no " #symbol ": the driver is older than CUDA 11.0"); \
  }
  RODA_CUDA_FUNCTIONS(X)
#undef X
#define X(member, symbol, parameters) look_up(handle, #symbol, &driver->member);
  RODA_CUDA_POOL_FUNCTIONS(X)
#undef X
  RODA_RETURN_IF_ERROR(driver->check(driver->DriverGetVersion(&driver->version), "cuDriverGetVersion"));
  if (driver->version >= kOldestVersion) return {};
  if (driver->version == 0) return Status::unavailable(std::string(file) + " finds no CUDA driver in the kernel");
  return Status::unavailable("the driver serves CUDA " + version_text(driver->version) +
                             " at most, 11.0 is needed: install a newer one");
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
  const std::string name = file != nullptr && *file != '\0' ? file : kDriverFile;
  const MutexLock lock(guard);
  const auto [entry, is_new] = known.try_emplace(name);
  Opened& opened = entry->second;
  if (is_new) opened.status = fill(name.c_str(), &opened.table);
  *driver = opened.status.ok() ? &opened.table : nullptr;
  return opened.status;
}

std::string Driver::explain(Result result, const std::string& what) const {
  const char *name = nullptr, *words = nullptr;
  GetErrorName(result, &name);
  GetErrorString(result, &words);
  std::string text = "CUDA: " + what + ": " + (name != nullptr ? name : "error " + std::to_string(result));
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
