#include "transports/ucx/memory.h"

#include <roda/sdk/error.hpp>

#include <string>

namespace roda::ucx {

ucs_memory_type_t memory_type(const Library& library, int32_t kind) {
  const ucs_memory_type_t type = kind == RODA_MEMORY_CUDA ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST;
  if (library.handles(type)) return type;
  throw sdk::Failure(RODA_ERR_UNSUPPORTED,
                     "ucx: UCX " + library_version() +
                         " was not built for CUDA memory, or finds no GPU: `ucx_info -d` shows no cuda_copy");
}

Memories::~Memories() {
  for (const auto& [address, entry] : entries_) library_.unmap(entry.handle);
}

void Memories::allocate(std::size_t bytes, roda_memory* memory) {
  void* address = nullptr;
  const std::size_t length = bytes == 0 ? 1 : bytes;
  const ucp_mem_h handle = library_.map(&address, length, UCS_MEMORY_TYPE_HOST);
  entries_[key(address)] = {length, handle, 1};
  *memory = roda_memory{sizeof(roda_memory), RODA_MEMORY_HOST, -1, 0, address, bytes, this};
}

void Memories::free(roda_memory* memory) {
  if (memory->owner != this) return;
  drop(memory->address);
  memory->address = memory->owner = nullptr;
  memory->length = 0;
}

void Memories::add(const roda_memory& memory) {
  const auto known = entries_.find(key(memory.address));
  if (known != entries_.end() && known->second.bytes >= memory.length) {
    ++known->second.uses;
    return;
  }
  if (known != entries_.end()) {
    throw sdk::Failure(RODA_ERR_INVALID, "ucx: a shorter range is registered at the same address already");
  }
  void* address = memory.address;
  const ucp_mem_h handle = library_.map(&address, memory.length, memory_type(library_, memory.kind));
  entries_[key(memory.address)] = {memory.length, handle, 1};
}

void Memories::remove(const roda_memory& memory) { drop(memory.address); }

void Memories::drop(const void* address) {
  const auto known = entries_.find(key(address));
  if (known == entries_.end() || --known->second.uses > 0) return;
  library_.unmap(known->second.handle);
  entries_.erase(known);
}

ucp_mem_h Memories::find(const void* base, std::size_t bytes) const {
  auto after = entries_.upper_bound(key(base));
  if (after == entries_.begin()) return nullptr;
  const auto& [address, entry] = *--after;
  return key(base) + bytes <= address + entry.bytes ? entry.handle : nullptr;
}

}  // namespace roda::ucx
