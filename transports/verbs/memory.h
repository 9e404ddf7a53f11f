// Memory that devices may touch: registrations, and the memory that the transport hands out.
//
// There is no cache of registrations by address: memory that its owner gives back and gets again elsewhere would leave
// one that reaches the wrong pages. What lives long is what was handed out (memory_alloc) or registered
// (memory_register) until it is taken back; everything else is registered for one operation.
#pragma once

#include <roda/abi/host.h>

#include <map>

#include "transports/verbs/device.h"

namespace roda::verbs {

inline constexpr std::size_t kMaxDevices = 8;
using Devices = std::vector<std::unique_ptr<Device>>;

// Of memory that windows may be opened over.
inline constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

// One range registered with some of the devices. Throws sdk::Failure, which names the limit on locked memory when that
// is the reason. One owner; deregisters at its end: no access to the range by a device can follow.
class Registration {
 public:
  Registration() = default;
  // `which`: bit i for devices[i]. `kind` is a roda_memory_kind; `access` enum ibv_access_flags.
  Registration(const Devices& devices, unsigned which, void* base, std::size_t bytes, int access, int kind);
  Registration(Registration&& other) noexcept { *this = std::move(other); }
  Registration& operator=(Registration&& other) noexcept;
  ~Registration() { release(); }

  void release();
  // In a forked child nothing of it may be touched.
  void forget() { regions_.fill(nullptr); }
  explicit operator bool() const { return devices_ != nullptr; }
  // Of a device that it was registered with.
  std::uint32_t local_key(std::size_t device) const { return regions_[device]->lkey; }
  std::uint32_t remote_key(std::size_t device) const { return regions_[device]->rkey; }

 private:
  const Devices* devices_ = nullptr;
  std::array<ibv_mr*, kMaxDevices> regions_{};
};

// Anonymous pages that forked children do not have; freed by unmap_pages. Throws sdk::Failure.
void* map_pages(std::size_t bytes);
void unmap_pages(void* base, std::size_t bytes);
std::size_t round_to_pages(std::size_t bytes);

// What was handed out or registered by the user, found by address. One thread at a time.
class KnownMemory {
 public:
  explicit KnownMemory(const Devices& devices) : devices_(devices) {}
  ~KnownMemory() {
    if (ranges_ == nullptr) return;
    while (!ranges_->empty()) free(reinterpret_cast<void*>(ranges_->begin()->first));
  }

  // New memory, zero-filled, page-aligned, registered with all devices; not there in forked children.
  void* allocate(std::size_t bytes, std::size_t* length) {
    const std::size_t rounded = round_to_pages(std::max<std::size_t>(bytes, 1));
    void* base = map_pages(rounded);
    try {
      Range range{rounded, true, Registration(devices_, all(), base, rounded, kAccess, RODA_MEMORY_HOST)};
      ranges_->emplace(reinterpret_cast<std::uintptr_t>(base), std::move(range));
    } catch (...) {
      unmap_pages(base, rounded);
      throw;
    }
    *length = rounded;
    return base;
  }
  void add(const roda_memory& memory) {
    Range range{memory.length, false,
                Registration(devices_, all(), memory.address, memory.length, kAccess, memory.kind)};
    if (!ranges_->emplace(reinterpret_cast<std::uintptr_t>(memory.address), std::move(range)).second) {
      throw sdk::Failure(RODA_ERR_INVALID, "verbs: memory at this address is registered already");
    }
  }
  // Takes back what either of the two has put there.
  void free(void* base) {
    auto found = ranges_->find(reinterpret_cast<std::uintptr_t>(base));
    if (found == ranges_->end()) return;
    found->second.registration.release();
    if (found->second.is_ours) unmap_pages(base, found->second.bytes);
    ranges_->erase(found);
  }

  // The registration that covers the whole range, or null.
  const Registration* find(const void* base, std::size_t bytes) const {
    const auto begin = reinterpret_cast<std::uintptr_t>(base);
    auto next = ranges_->upper_bound(begin);
    if (next == ranges_->begin()) return nullptr;
    const auto& [start, range] = *std::prev(next);
    const std::size_t offset = begin - start;
    return offset <= range.bytes && bytes <= range.bytes - offset ? &range.registration : nullptr;
  }
  // In a forked child nothing of it may be touched.
  void forget() { ranges_.release(); }

 private:
  struct Range {
    std::size_t bytes = 0;
    bool is_ours = false;
    Registration registration;
  };
  using Ranges = std::map<std::uintptr_t, Range>;

  unsigned all() const { return (1u << devices_.size()) - 1; }

  const Devices& devices_;
  std::unique_ptr<Ranges> ranges_ = std::make_unique<Ranges>();
};

// Whether the devices reach a GPU's memory: found by registering some of it. `gpu`: its number in this process, which
// has CUDA started already. False where CUDA, or one of the devices, doesn't offer it: neither a dma-buf nor the
// kernel's peer-memory module.
bool reaches_gpu(const roda_host* host, const Devices& devices, int gpu);

}  // namespace roda::verbs
