// Memory that is registered with UCX for as long as its owner says: handed out here, or registered by name.
//
// A registration costs system calls and, on RDMA devices, a round through the driver; windows and messages over a part
// of memory that is registered here use that registration.
#pragma once

#include <roda/abi/transport.h>
#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <map>

#include "transports/ucx/library.h"

namespace roda::ucx {

// UCX's word for a kind of memory. Throws for one that this UCX can't move.
ucs_memory_type_t memory_type(const Library& library, int32_t kind);

// Threads: one at a time. Throws sdk::Failure. What is left is given back at the end.
class Memories {
 public:
  explicit Memories(const Library& library) : library_(library) {}
  ~Memories();
  Memories(const Memories&) = delete;
  Memories& operator=(const Memories&) = delete;

  void allocate(std::size_t bytes, roda_memory* memory);
  void free(roda_memory* memory);
  // The same range may be registered several times; the last deregister() ends it.
  void add(const roda_memory& memory);
  void remove(const roda_memory& memory);

  // The registration that all of the range lies in, null if there is none.
  ucp_mem_h find(const void* base, std::size_t bytes) const;

 private:
  struct Entry {
    std::size_t bytes = 0;
    ucp_mem_h handle = nullptr;
    int uses = 0;
  };
  using Key = std::uintptr_t;
  static Key key(const void* address) { return reinterpret_cast<Key>(address); }
  void drop(const void* address);

  const Library& library_;
  std::map<Key, Entry> entries_;
};

}  // namespace roda::ucx
