#include "transports/verbs/memory.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>
#include <roda/sdk/error.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "plugins/base/cuda/devices.h"
#include "plugins/base/locked_memory.h"
#include "plugins/base/symbols.h"

namespace roda::verbs {
namespace {

// cuMemGetHandleForAddressRange of CUDA's driver API, 11.7 and later; looked up so that no CUDA header is needed.
using GetHandle = int (*)(void* handle, unsigned long long address, std::size_t bytes, int type,
                          unsigned long long flags);
constexpr int kDmaBufDescriptor = 1;  // CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD

// A registration of CUDA memory by dma-buf; null where CUDA's driver, the range or the RDMA device does not offer it.
ibv_mr* register_dma_buf(const Device& device, void* base, std::size_t bytes, int access) {
  const auto reg_dmabuf_mr = device.library().reg_dmabuf_mr;
  // Only where the process has CUDA's driver already: it is the memory's owner.
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  GetHandle get_handle = nullptr;
  const bool is_there = driver != nullptr && look_up(driver, "cuMemGetHandleForAddressRange", &get_handle);
  if (reg_dmabuf_mr == nullptr || !is_there) return nullptr;
  // The driver takes whole pages of the host's size.
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  const std::uintptr_t begin = address / page * page;
  const std::uintptr_t end = (address + bytes + page - 1) / page * page;
  int fd = -1;
  if (get_handle(&fd, begin, end - begin, kDmaBufDescriptor, 0) != 0 || fd < 0) return nullptr;
  ibv_mr* region = reg_dmabuf_mr(device.pd(), address - begin, bytes, address, fd, access);
  ::close(fd);  // the registration holds the buffer by itself
  return region;
}

sdk::Failure refusal(const Device& device, std::size_t bytes, int error) {
  const bool may_be_limit = error == ENOMEM || error == EPERM || error == EAGAIN;
  return {may_be_limit ? RODA_ERR_NO_MEMORY : RODA_ERR_SYSTEM,
          "verbs: " + std::to_string(bytes) + " bytes can't be registered with " + device.name() + ": " +
              std::strerror(error) + (may_be_limit ? locked_memory_advice() : "")};
}

ibv_mr* register_with(const Device& device, void* base, std::size_t bytes, int access, int kind) {
  ibv_mr* region = nullptr;
  if (kind == RODA_MEMORY_CUDA) region = register_dma_buf(device, base, bytes, access);
  // Device memory without a dma-buf: the kernel's peer-memory modules know such addresses too.
  if (region == nullptr) region = device.library().reg_mr(device.pd(), base, bytes, access);
  return region;
}

constexpr std::size_t kTrialBytes = std::size_t{64} << 10;

bool can_register(const Devices& devices, void* base) {
  try {
    Registration(devices, kAllDevices, base, kTrialBytes, kAccess, RODA_MEMORY_CUDA);
    return true;
  } catch (const sdk::Failure&) {
    return false;
  }
}

}  // namespace

Registration::Registration(const Devices& devices, unsigned which, void* base, std::size_t bytes, int access, int kind)
    : devices_(&devices) {
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if ((which >> i & 1) == 0) continue;
    regions_[i] = register_with(*devices[i], base, bytes, access, kind);
    if (regions_[i] != nullptr) continue;
    const int error = errno;
    release();
    throw refusal(*devices[i], bytes, error);
  }
}

void Registration::release() {
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    if (regions_[i] != nullptr) (*devices_)[i]->library().dereg_mr(std::exchange(regions_[i], nullptr));
  }
  devices_ = nullptr;
}

void Unmap::operator()(std::byte* base) const { ::munmap(base, bytes); }

Pages map_pages(std::size_t least) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t bytes = (std::max<std::size_t>(least, 1) + page - 1) / page * page;
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) {
    throw sdk::Failure(RODA_ERR_NO_MEMORY, "verbs: no memory for " + std::to_string(bytes) + " bytes");
  }
  (void)::madvise(base, bytes, MADV_HUGEPAGE);
  // A device writes to the pages that were there at the fork: a child must not get them, nor copies be made.
  (void)::madvise(base, bytes, MADV_DONTFORK);
  return Pages(static_cast<std::byte*>(base), Unmap{bytes});
}

bool reaches_gpu(const roda_host* host, const Devices& devices, int gpu) {
  const cuda::Driver* driver = nullptr;
  const char* file = host == nullptr ? nullptr : host->knob(host->self, "RODA_TEST_CUDA_LIBRARY");
  if (!cuda::Driver::open(file, &driver).ok()) return false;
  cuda::Context context = nullptr;
  cuda::Devices& gpus = cuda::Devices::get(*driver);
  if (!gpus.context(gpu, &context).ok() || !gpus.orders_writes(gpu)) return false;
  const cuda::ContextScope scope(*driver, context);
  cuda::Address address{};
  if (driver->MemAlloc(&address, kTrialBytes) != cuda::kSuccess) return false;
  const bool is_reached = can_register(devices, reinterpret_cast<void*>(address));
  driver->MemFree(address);
  return is_reached;
}

}  // namespace roda::verbs
