#include "transports/verbs/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <roda/sdk/error.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "plugins/base/locked_memory.h"
#include "transports/verbs/dmabuf.h"

namespace roda::verbs {

namespace {

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

Registration& Registration::operator=(Registration&& other) noexcept {
  std::swap(devices_, other.devices_);
  std::swap(regions_, other.regions_);
  return *this;
}

void Registration::release() {
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    if (regions_[i] != nullptr) (*devices_)[i]->library().dereg_mr(std::exchange(regions_[i], nullptr));
  }
  devices_ = nullptr;
}

KnownMemory::~KnownMemory() {
  if (ranges_ == nullptr) return;
  while (!ranges_->empty()) free(reinterpret_cast<void*>(ranges_->begin()->first));
}

void* KnownMemory::allocate(std::size_t bytes, std::size_t* length) {
  const std::size_t rounded = round_to_pages(std::max<std::size_t>(bytes, 1));
  void* base = map_pages(rounded);
  try {
    constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    Range range{rounded, true, Registration(devices_, all(), base, rounded, kAccess, RODA_MEMORY_HOST)};
    ranges_->emplace(reinterpret_cast<std::uintptr_t>(base), std::move(range));
  } catch (...) {
    unmap_pages(base, rounded);
    throw;
  }
  *length = rounded;
  return base;
}

void KnownMemory::free(void* base) {
  auto found = ranges_->find(reinterpret_cast<std::uintptr_t>(base));
  if (found == ranges_->end()) return;
  found->second.registration.release();
  if (found->second.is_ours) unmap_pages(base, found->second.bytes);
  ranges_->erase(found);
}

void KnownMemory::add(const roda_memory& memory) {
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  Range range{memory.length, false, Registration(devices_, all(), memory.address, memory.length, kAccess, memory.kind)};
  if (!ranges_->emplace(reinterpret_cast<std::uintptr_t>(memory.address), std::move(range)).second) {
    throw sdk::Failure(RODA_ERR_INVALID, "verbs: memory at this address is registered already");
  }
}

const Registration* KnownMemory::find(const void* base, std::size_t bytes) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(base);
  auto next = ranges_->upper_bound(begin);
  if (next == ranges_->begin()) return nullptr;
  const auto& [start, range] = *std::prev(next);
  const std::size_t offset = begin - start;
  return offset <= range.bytes && bytes <= range.bytes - offset ? &range.registration : nullptr;
}

std::size_t round_to_pages(std::size_t bytes) {
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

void* map_pages(std::size_t bytes) {
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) {
    throw sdk::Failure(RODA_ERR_NO_MEMORY, "verbs: no memory for " + std::to_string(bytes) + " bytes");
  }
  (void)::madvise(base, bytes, MADV_HUGEPAGE);
  // A device writes to the pages that were there at the fork: a child must not get them, nor copies be made.
  (void)::madvise(base, bytes, MADV_DONTFORK);
  return base;
}

void unmap_pages(void* base, std::size_t bytes) { ::munmap(base, bytes); }

}  // namespace roda::verbs
