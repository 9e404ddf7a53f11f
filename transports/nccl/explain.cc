#include "transports/nccl/explain.h"

namespace roda::nccl {
namespace {

struct Cause {
  const char* part;  // of NCCL's text
  const char* advice;
};
constexpr Cause kCauses[] = {
    {"Duplicate GPU",
     "two ranks use the same GPU, which NCCL does not allow: give each rank of a host its own "
     "(torch.cuda.set_device(hvd.local_rank())) and start no more ranks on a host than it has GPUs"},
    {"/dev/shm",
     "shared memory is too small, as it is in containers by default: enlarge it (docker run --shm-size=1g), or set "
     "NCCL_SHM_DISABLE=1"},
    {"No space left on device",
     "shared memory is too small, as it is in containers by default: enlarge it (docker run --shm-size=1g), or set "
     "NCCL_SHM_DISABLE=1"},
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
