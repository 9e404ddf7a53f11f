// Over the CUDA DOUBLE of tests/doubles where the job is given that; see gpu_array.h.
#include "tests/multi/gpu/gpu_array.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>

namespace roda::test {
namespace {

void expect_ok(int code, const roda_error& error) {
  if (code >= 0) return;
  std::fprintf(stderr, "the device: %s\n", error.message);
  std::abort();
}

roda_error no_error() {
  roda_error error{};
  error.struct_size = sizeof error;
  return error;
}

const roda_device* open_device() {
  void* library = dlopen(std::getenv("GPU_TEST_DEVICE"), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "GPU_TEST_DEVICE: %s\n", dlerror());
    std::abort();
  }
  return reinterpret_cast<roda_device_entry>(dlsym(library, RODA_DEVICE_SYMBOL))();
}

// A function of the CUDA double's; null on a card.
template <typename Function>
Function of_double(const char* name) {
  const char* file = std::getenv("RODA_TEST_CUDA_LIBRARY");
  void* driver = file != nullptr ? dlopen(file, RTLD_NOW | RTLD_NOLOAD) : nullptr;
  return driver != nullptr ? reinterpret_cast<Function>(dlsym(driver, name)) : nullptr;
}

// What this thread does meanwhile is the program's: to the double it relies on no wait of the engine's.
class ProgramScope {
 public:
  ProgramScope() { set(1); }
  ~ProgramScope() { set(0); }
  ProgramScope(const ProgramScope&) = delete;
  ProgramScope& operator=(const ProgramScope&) = delete;

 private:
  static void set(int is_program) {
    static const auto tell = of_double<void (*)(int)>("roda_cuda_double_set_program");
    if (tell != nullptr) tell(is_program);
  }
};

void synchronise(void* stream) {
  roda_error error = no_error();
  void* event = nullptr;
  expect_ok(gpu_device().event_record(stream, &event, &error), error);
  int code = RODA_IN_PROGRESS;
  while ((code = gpu_device().event_test(event, &error)) == RODA_IN_PROGRESS) std::this_thread::yield();
  expect_ok(code, error);
  gpu_device().event_release(event);
}

}  // namespace

const roda_device& gpu_device() {
  static const roda_device* device = open_device();
  return *device;
}

std::int32_t own_gpu() {
  const char* named = std::getenv("GPU_TEST_GPU");
  return named != nullptr ? std::atoi(named) : roda_rank();
}

void* own_stream(std::int32_t gpu) {
  static std::map<std::int32_t, void*> streams;
  void*& stream = streams[gpu];
  roda_error error = no_error();
  if (stream == nullptr) expect_ok(gpu_device().stream_create(gpu, &stream, &error), error);
  return stream;
}

GpuArray::GpuArray(const void* data, std::size_t bytes, std::int32_t gpu)
    : source_(static_cast<const char*>(data), static_cast<const char*>(data) + bytes), bytes_(bytes), gpu_(gpu) {
  const ProgramScope program;
  roda_error error = no_error();
  memory_.struct_size = sizeof memory_;
  expect_ok(gpu_device().alloc(gpu, std::max<std::size_t>(bytes, 1), &memory_, &error), error);
  expect_ok(gpu_device().copy(memory_.address, source_.data(), bytes, own_stream(gpu), &error), error);
}

GpuArray::~GpuArray() {
  const ProgramScope program;
  synchronise(own_stream(gpu_));
  gpu_device().free(&memory_);
}

void GpuArray::read_to(void* to) const {
  const ProgramScope program;
  roda_error error = no_error();
  expect_ok(gpu_device().copy(to, memory_.address, bytes_, own_stream(gpu_), &error), error);
  synchronise(own_stream(gpu_));
}

void read_gpu(const void* address, std::size_t bytes, std::int32_t gpu, void* to) {
  const ProgramScope program;
  roda_error error = no_error();
  expect_ok(gpu_device().copy(to, address, bytes, own_stream(gpu), &error), error);
  synchronise(own_stream(gpu));
}

void wait_for_engine() {
  const auto tell = of_double<void (*)()>("roda_cuda_double_join");
  if (tell != nullptr) tell();
}

Outcome wait_on_stream(roda_handle handle, std::int32_t gpu) {
  roda_error error = no_error();
  const int code = roda_wait_on_stream(handle, own_stream(gpu), &error);
  roda_release(handle);
  if (code != RODA_OK) wait_for_engine();
  return {code, code == RODA_OK ? "" : error.message};
}

Outcome run_gpu(const roda_op& op, std::int32_t gpu) {
  roda_handle handle = 0;
  const Outcome outcome = submit({op}, &handle);
  return outcome.code == RODA_OK ? wait_on_stream(handle, gpu) : outcome;
}

}  // namespace roda::test
