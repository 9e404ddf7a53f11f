// Names and words of the results that the CUDA double returns.
#include "tests/doubles/cuda/state.h"

namespace cuda = roda::cuda;
using cuda::Result;

namespace {

struct Text {
  Result result;
  const char* name;
  const char* words;
};
constexpr Text kTexts[] = {
    {cuda::kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {cuda::kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {cuda::kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {cuda::kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {cuda::kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {cuda::kInvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {cuda::kNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available"},
    {cuda::kUnsupportedPtx, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the PTX was compiled with an unsupported toolchain"},
    {cuda::kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {cuda::kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {cuda::kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {cuda::kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {cuda::kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
};

const Text* text_of(Result result) {
  for (const Text& text : kTexts) {
    if (text.result == result) return &text;
  }
  return nullptr;
}

}  // namespace

RODA_DOUBLE Result cuGetErrorName(Result result, const char** text) {
  const Text* found = text_of(result);
  *text = found != nullptr ? found->name : nullptr;
  return found != nullptr ? cuda::kSuccess : cuda::kInvalidValue;
}
RODA_DOUBLE Result cuGetErrorString(Result result, const char** text) {
  const Text* found = text_of(result);
  *text = found != nullptr ? found->words : nullptr;
  return found != nullptr ? cuda::kSuccess : cuda::kInvalidValue;
}
