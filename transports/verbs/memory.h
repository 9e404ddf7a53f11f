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

inline constexpr unsigned kAllDevices = ~0u;

// The access to memory that windows may be opened over.
inline constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

// One range registered with some of the devices. Throws sdk::Failure, which names the limit on locked memory when that
// is the reason. One owner; deregisters at its end: no access to the range by a device can follow.
class Registration {
 public:
  Registration() = default;
  // `which`: bit i for devices[i]. `kind` is a roda_memory_kind; `access` enum ibv_access_flags.
  Registration(const Devices& devices, unsigned which, void* base, std::size_t bytes, int access, int kind);
  Registration(Registration&& other) noexcept { *this = std::move(other); }
  Registration& operator=(Registration&& other) noexcept {
    std::swap(devices_, other.devices_);
    std::swap(regions_, other.regions_);
    return *this;
  }
  ~Registration() { release(); }

  void release();
  // In a forked child nothing of it may be touched.
  void forget() { regions_.fill(nullptr); }
  // The keys for a device with which the memory was registered.
  std::uint32_t local_key(std::size_t device) const { return regions_[device]->lkey; }
  std::uint32_t remote_key(std::size_t device) const { return regions_[device]->rkey; }

 private:
  const Devices* devices_ = nullptr;
  std::array<ibv_mr*, kMaxDevices> regions_{};
};

// Anonymous pages that forked children do not have.
struct Unmap {
  std::size_t bytes = 0;
  void operator()(std::byte* base) const;
};
using Pages = std::unique_ptr<std::byte, Unmap>;
// At least so many bytes, zero-filled; the deleter knows how many. Throws sdk::Failure.
Pages map_pages(std::size_t bytes);

// What was handed out or registered by the user, found by address. One thread at a time.
class KnownMemory {
 public:
  explicit KnownMemory(const Devices& devices) : devices_(devices) {}

  // New memory, zero-filled, page-aligned, registered with all devices; not there in forked children.
  void* allocate(std::size_t bytes, std::size_t* length) {
    Pages pages = map_pages(bytes);
    std::byte* base = pages.get();
    *length = pages.get_deleter().bytes;
    Registration registration(devices_, kAllDevices, base, *length, kAccess, RODA_MEMORY_HOST);
    ranges_.emplace(key(base), Range{*length, std::move(pages), std::move(registration)});
    return base;
  }
  void add(const roda_memory& memory) {
    Registration registration(devices_, kAllDevices, memory.address, memory.length, kAccess, memory.kind);
    if (!ranges_.emplace(key(memory.address), Range{memory.length, {}, std::move(registration)}).second) {
      throw sdk::Failure(RODA_ERR_INVALID, "verbs: memory at this address is registered already");
    }
  }
  // Takes back what either of the two has put there.
  void free(const void* base) { ranges_.erase(key(base)); }

  // The registration that covers the whole range, or null.
  const Registration* find(const void* base, std::size_t bytes) const {
    const auto next = ranges_.upper_bound(key(base));
    if (next == ranges_.begin()) return nullptr;
    const auto& [start, range] = *std::prev(next);
    const std::size_t offset = key(base) - start;
    return offset <= range.bytes && bytes <= range.bytes - offset ? &range.registration : nullptr;
  }

 private:
  struct Range {
    std::size_t bytes = 0;
    Pages pages;  // empty: the user's
    Registration registration;
  };
  static std::uintptr_t key(const void* base) { return reinterpret_cast<std::uintptr_t>(base); }

  const Devices& devices_;
  std::map<std::uintptr_t, Range> ranges_;
};

// Whether the devices reach a GPU's memory: found by registering some of it. `gpu`: its number in this process, which
// has CUDA started already. False where CUDA, or one of the devices, doesn't offer it (neither a dma-buf nor the
// kernel's peer-memory module), and where a message might be told of before the GPU sees what it wrote.
bool reaches_gpu(const roda_host* host, const Devices& devices, int gpu);

}  // namespace roda::verbs
