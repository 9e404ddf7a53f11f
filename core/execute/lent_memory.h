// Memory of a transport's own that a program has its tensors in: peers reach them where they lie, and nothing is
// staged.
#pragma once

#include <roda/abi/types.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>

#include "plugins/base/fork_guard.h"

namespace roda::execute {

// Held by the program and by the group that lent it; the last of them gives the memory back, the program by unmapping
// pages that the transport left to it (RODA_CAP_MEMORY_STAYS). Threads: give_back() any, once; the rest the holder of
// the engine's baton.
class LentMemory {
 public:
  // Of the program.
  void* data() const { return memory_.address; }
  void give_back() {
    // A child has no such memory, and something of its own may lie in its place.
    if (is_forked_child() || !is_last()) return;
    // The pages, too: other memory of the same segment may stay.
    ::madvise(memory_.address, memory_.length, MADV_REMOVE);
    ::munmap(memory_.address, memory_.length);
    delete this;
  }

 private:
  friend class TransportGroup;
  explicit LentMemory(const roda_memory& memory) : memory_(memory) {}
  ~LentMemory() = default;

  bool is_last() { return holders_.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  bool was_given_back() const { return holders_.load(std::memory_order_acquire) == 1; }
  bool has(const void* base, std::size_t bytes) const {
    const auto* begin = static_cast<const char*>(memory_.address);
    const auto* at = static_cast<const char*>(base);
    return at >= begin && at + bytes <= begin + memory_.length;
  }

  roda_memory memory_;
  std::atomic<int> holders_{2};
};

}  // namespace roda::execute
