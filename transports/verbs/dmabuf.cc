#include "transports/verbs/dmabuf.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>

namespace roda::verbs {

namespace {

// cuMemGetHandleForAddressRange of CUDA's driver API, 11.7 and later; looked up so that no CUDA header is needed.
using GetHandle = int (*)(void* handle, unsigned long long address, std::size_t bytes, int type,
                          unsigned long long flags);
constexpr int kDmaBufDescriptor = 1;  // CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD

GetHandle find_get_handle() {
  // Only where the process has CUDA's driver already: it is the memory's owner.
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return driver != nullptr ? reinterpret_cast<GetHandle>(::dlsym(driver, "cuMemGetHandleForAddressRange")) : nullptr;
}

}  // namespace

ibv_mr* register_dma_buf(const Device& device, void* base, std::size_t bytes, int access) {
  const auto reg_dmabuf_mr = device.library().reg_dmabuf_mr;
  const GetHandle get_handle = find_get_handle();
  if (reg_dmabuf_mr == nullptr || get_handle == nullptr) return nullptr;
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

}  // namespace roda::verbs
