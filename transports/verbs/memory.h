// Memory that devices may touch: registrations, and the memory that the transport hands out.
//
// There is no cache of registrations by address: memory that its owner gives back and gets again elsewhere would leave
// one that reaches the wrong pages. What lives long is what was handed out (memory_alloc) or registered
// (memory_register) until it is taken back; everything else is registered for one operation.
#pragma once

#include <roda/abi/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "transports/verbs/device.h"

namespace roda::verbs {

inline constexpr std::size_t kMaxDevices = 8;
using Devices = std::vector<std::unique_ptr<Device>>;

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

// What was handed out or registered by the user, found by address. One thread at a time.
class KnownMemory {
 public:
  explicit KnownMemory(const Devices& devices) : devices_(devices) {}
  ~KnownMemory();
  KnownMemory(const KnownMemory&) = delete;
  KnownMemory& operator=(const KnownMemory&) = delete;

  // New memory, zero-filled, page-aligned, registered with all devices; not there in forked children.
  void* allocate(std::size_t bytes, std::size_t* length);
  void add(const roda_memory& memory);
  // Takes back what either of the two has put there.
  void free(void* base);

  // The registration that covers the whole range, or null.
  const Registration* find(const void* base, std::size_t bytes) const;
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

// Anonymous pages that forked children do not have; freed by unmap_pages. Throws sdk::Failure.
void* map_pages(std::size_t bytes);
void unmap_pages(void* base, std::size_t bytes);
std::size_t round_to_pages(std::size_t bytes);

}  // namespace roda::verbs
